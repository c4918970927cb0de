"""Formulas as an ONNX graph, written as one writes them for tensors. What is computed, the parts say.

A part that can be exported has a method `draw` that makes of a `Value` what it computes of a tensor: a head its
logits, a detector its novelty, an uncertainty its distances.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from torch import Tensor

from cual.errors import NotExportable
from cual.types import AnyArray

OPSET = 17
"""Of a graph that begins with features: what runtimes of the last years read."""
LEAST_OPSET = 13
NETWORK = "network/"
"""What names inside of a network begin with that a graph goes on from: they must not be in the way."""
AXES_ARE_INPUTS = 18
"""The opset from which on all reductions take their axes as an input."""


class Graph:
    """A graph that grows node by node.

    Parameters
    ----------
    model
        An `onnx.ModelProto` that it grows in; an empty one if not given.

    >>> graph = Graph()
    >>> X = graph.input("features", np.float32, "n", 2)
    >>> graph.output("length", (X * X).sum(1).sqrt(), "n")
    >>> [node.op_type for node in graph.model.graph.node]
    ['Mul', 'ReduceSum', 'Sqrt', 'Identity']
    """

    def __init__(self, model: Any = None) -> None:
        self.model = empty_model() if model is None else model
        self.opset = opset_of(self.model)
        self._names = 0
        self._shared: dict[Any, Value] = {}

    @classmethod
    def after(cls, model: Any) -> tuple["Graph", "Value"]:
        """A graph that goes on from the first output of a network, whose inputs keep their names."""
        from onnx import compose, helper

        inside = compose.add_prefix(model, NETWORK)
        given = {i.name for i in inside.graph.input} - {i.name for i in inside.graph.initializer}
        _rename(inside.graph, {name: name.removeprefix(NETWORK) for name in given})
        last = inside.graph.output[0]
        dtype = helper.tensor_dtype_to_np_dtype(last.type.tensor_type.elem_type).type
        del inside.graph.output[:]
        graph = cls(inside)
        return graph, Value(graph, last.name, dtype)

    def input(self, name: str, dtype: type[np.generic], *shape: int | str) -> "Value":
        """What the graph is given; a dimension that has a name is free."""
        from onnx import helper

        self.model.graph.input.append(helper.make_tensor_value_info(name, _type_of(dtype), shape))
        return Value(self, name, dtype)

    def output(self, name: str, value: "Value", *shape: int | str) -> None:
        """What the graph gives."""
        from onnx import helper

        self.model.graph.node.append(helper.make_node("Identity", [value.name], [name]))
        info = helper.make_tensor_value_info(name, _type_of(value.dtype), shape)
        self.model.graph.output.append(info)

    def constant(self, value: Tensor | AnyArray | float, dtype: type[np.generic]) -> "Value":
        """A number, or a table of them."""
        from onnx import numpy_helper

        array = value.detach().cpu().numpy() if isinstance(value, Tensor) else np.asarray(value)
        name = self._new_name()
        tensor = numpy_helper.from_array(np.ascontiguousarray(array.astype(dtype)).reshape(array.shape), name)
        self.model.graph.initializer.append(tensor)
        return Value(self, name, dtype)

    def node(
        self,
        kind: str,
        *inputs: "Value",
        outputs: int = 1,
        dtype: type[np.generic] | None = None,
        **options: Any,
    ) -> list["Value"]:
        """What an operation makes of some values, of the type of the first unless another is named."""
        from onnx import helper

        names = [self._new_name() for _ in range(outputs)]
        self.model.graph.node.append(helper.make_node(kind, [value.name for value in inputs], names, **options))
        return [Value(self, name, dtype or inputs[0].dtype) for name in names]

    def shared(self, key: Any, make: Callable[[], "Value"]) -> "Value":
        """A value that several formulas need, and that is made once."""
        if key not in self._shared:
            self._shared[key] = make()
        return self._shared[key]

    def _new_name(self) -> str:
        self._names += 1
        return f"cual.{self._names}"


class Value:
    """A tensor of the graph; what is done to it becomes nodes. Rows are samples.

    >>> import onnxruntime
    >>> graph = Graph()
    >>> X = graph.input("X", np.float32, "n", 3)
    >>> graph.output("best", X.softmax().argmax(), "n")
    >>> graph.output("above", X.max(1).above(0.5), "n")
    >>> session = onnxruntime.InferenceSession(graph.model.SerializeToString())
    >>> [out.tolist() for out in session.run(None, {"X": np.array([[0.1, 0.9, 0.2]], np.float32)})]
    [[1], [True]]
    """

    def __init__(self, graph: Graph, name: str, dtype: type[np.generic]) -> None:
        self.graph = graph
        self.name = name
        self.dtype = dtype

    def __add__(self, other: "Other") -> "Value":
        return self._with("Add", other)

    def __sub__(self, other: "Other") -> "Value":
        return self._with("Sub", other)

    def __mul__(self, other: "Other") -> "Value":
        return self._with("Mul", other)

    def __truediv__(self, other: "Other") -> "Value":
        return self._with("Div", other)

    def __matmul__(self, other: "Other") -> "Value":
        return self._with("MatMul", other)

    def above(self, other: "Other") -> "Value":
        """Whether it is greater."""
        return self.graph.node("Greater", self, self._like(other), dtype=np.bool_)[0]

    def at_least(self, other: "Other") -> "Value":
        """The greater of the two."""
        return self._with("Max", other)

    def to(self, dtype: type[np.generic]) -> "Value":
        """The same numbers in another type."""
        if dtype is self.dtype:
            return self
        return self.graph.node("Cast", self, dtype=dtype, to=_type_of(dtype))[0]

    def relu(self) -> "Value":
        return self.graph.node("Relu", self)[0]

    def sqrt(self) -> "Value":
        return self.graph.node("Sqrt", self)[0]

    def log(self) -> "Value":
        return self.graph.node("Log", self)[0]

    def softmax(self) -> "Value":
        return self.graph.node("Softmax", self, axis=1)[0]

    def argmax(self) -> "Value":
        """The column of the largest of each row; the first of equals."""
        return self.graph.node("ArgMax", self, axis=1, keepdims=0, dtype=np.int64)[0]

    def sum(self, *axes: int, keep: bool = False) -> "Value":
        return self._reduced("ReduceSum", axes, keep, since=13)

    def mean(self, *axes: int, keep: bool = False) -> "Value":
        return self._reduced("ReduceMean", axes, keep)

    def max(self, *axes: int, keep: bool = False) -> "Value":
        return self._reduced("ReduceMax", axes, keep)

    def min(self, *axes: int, keep: bool = False) -> "Value":
        return self._reduced("ReduceMin", axes, keep)

    def unit(self, least: float = 1e-12) -> "Value":
        """Rows at length one, as `torch.nn.functional.normalize` makes them."""
        return self / (self * self).sum(1, keep=True).sqrt().at_least(least)

    def top(self, k: int, largest: bool = True) -> tuple["Value", "Value"]:
        """The `k` largest or smallest of each row, in order, and their columns."""
        count = self.graph.constant(np.array([k]), np.int64)
        values, places = self.graph.node("TopK", self, count, outputs=2, axis=1, largest=int(largest))
        places.dtype = np.int64
        return values, places

    def take(self, places: "Value | AnyArray", axis: int = 0) -> "Value":
        """Entries at some places of an axis."""
        at = places if isinstance(places, Value) else self.graph.constant(places, np.int64)
        return self.graph.node("Gather", self, at, axis=axis)[0]

    def transposed(self, *axes: int) -> "Value":
        return self.graph.node("Transpose", self, perm=list(axes))[0]

    def squared_distances(self, others: Tensor) -> "Value":
        """‖x − o‖² of each row x and each of `others`, in float64: a small difference of large numbers."""
        centre = others.double().mean(dim=0)
        x, o = self.to(np.float64) - centre, others.double() - centre
        squares = (x * x).sum(1, keep=True) - x @ (2 * o.T) + o.square().sum(dim=1)
        return squares.at_least(0.0)

    def _with(self, kind: str, other: "Other") -> "Value":
        return self.graph.node(kind, self, self._like(other))[0]

    def _like(self, other: "Other") -> "Value":
        return other if isinstance(other, Value) else self.graph.constant(other, self.dtype)

    def _reduced(self, kind: str, axes: tuple[int, ...], keep: bool, since: int = AXES_ARE_INPUTS) -> "Value":
        if self.graph.opset < since:
            return self.graph.node(kind, self, axes=list(axes), keepdims=int(keep))[0]
        along = self.graph.constant(np.array(axes), np.int64)
        return self.graph.node(kind, self, along, keepdims=int(keep))[0]


Other = Value | Tensor | AnyArray | float


def joined(values: list[Value]) -> Value:
    """Columns side by side."""
    return values[0] if len(values) == 1 else values[0].graph.node("Concat", *values, axis=1)[0]


def cannot(part: object, why: str = "does not say its formula as a graph (a method draw)") -> NotExportable:
    """The error for a part that cannot be exported.

    >>> cannot(object())
    NotExportable('object does not say its formula as a graph (a method draw)')
    """
    return NotExportable(f"{type(part).__name__} {why}")


def empty_model(opset: int = OPSET, ir_version: int | None = None) -> Any:
    """An `onnx.ModelProto` without nodes."""
    from onnx import helper

    imports = [helper.make_opsetid("", opset)]
    model = helper.make_model(helper.make_graph([], "cual", [], []), opset_imports=imports)
    model.ir_version = ir_version or helper.find_min_ir_version_for(imports)
    return model


def opset_of(model: Any) -> int:
    """The version of ONNX's operations that a model is written in; too old ones are refused.

    >>> opset_of(empty_model(opset=8))
    Traceback (most recent call last):
    cual.errors.NotExportable: the encoder's network is written in ONNX opset 8; 13 is the least ...
    """
    version = next((o.version for o in model.opset_import if o.domain in ("", "ai.onnx")), 0)
    if version < LEAST_OPSET:
        raise NotExportable(
            f"the encoder's network is written in ONNX opset {version}; {LEAST_OPSET} is the least that can be "
            "gone on from (onnx.version_converter converts it)"
        )
    return version


def _rename(body: Any, names: dict[str, str]) -> None:
    """Give some values of a graph other names, in place, in graphs inside of it as well."""
    for node in body.node:
        node.input[:] = [names.get(name, name) for name in node.input]
        for attribute in node.attribute:
            for inner in (attribute.g, *attribute.graphs):
                _rename(inner, names)
    for value in body.input:
        value.name = names.get(value.name, value.name)


def _type_of(dtype: type[np.generic]) -> int:
    from onnx import helper

    return helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
