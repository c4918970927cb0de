"""A version of an agent as an ONNX file: what goes in, what comes out, and what the file says of itself.

Formulas are said by the parts (`draw`); whether the file says the same as the agent is checked in `checking`.
"""

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from cual import storage
from cual.agent import Agent
from cual.deploy.checking import Difference, check_features, check_items, larger
from cual.encoders.base import Encoder, InOnnx, is_built_in, spec_of, trusted
from cual.errors import NotAllowed, NotExportable, Unavailable, WrongEncoder
from cual.graph import Graph, Value
from cual.types import Row

LARGEST = 2**31 - 1
"""Bytes that one ONNX file can have."""
OUTPUTS = ("logits", "label", "probabilities", "calibrated", "novelty", "threshold", "unlike")


@dataclass(frozen=True)
class OnnxExport:
    """What was written.

    Attributes
    ----------
    inputs, outputs
        Their names.
    encoder
        The encoder that is in the file; None where it takes features.
    differences
        The largest difference of each output to what the agent says, where it was checked.
    size
        Bytes.
    """

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    encoder: str | None
    differences: tuple[Difference, ...]
    size: int


def to_onnx(
    agent: Agent,
    path: str | os.PathLike[str],
    encoder: bool | Literal["auto"] | str | Encoder = "auto",
    false_alarms: float | None = None,
    novelty: bool = True,
) -> OnnxExport:
    """Write an agent as one ONNX file, checked against the agent to 1e-4 before it is put at `path`.

    Parameters
    ----------
    path
        The file to write; replaced if it is there.
    encoder
        True puts the agent's built-in encoder before it, so that it takes pictures or tokens; with False it
        takes features; "auto" is True where that can be. Encoders that are not built in must be named or given.
    false_alarms
        The share of known samples that may be called unlike anything known; None for the method's own
        threshold.
    novelty
        Whether it tells how novel samples are; False for classes alone.

    Examples
    --------
    >>> import tempfile
    >>> rng = np.random.default_rng(0)
    >>> X = np.concatenate([rng.normal(c, 1, (30, 8)) for c in (0, 6)]).astype(np.float32)
    >>> agent = Agent.fit(X, ["cat"] * 30 + ["dog"] * 30)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     written = to_onnx(agent, f"{folder}/v0.onnx")
    >>> written.inputs, written.outputs[:3]
    (('features',), ('logits', 'label', 'probabilities'))
    """
    _check_installed()
    chosen = _encoder_of(agent, encoder)
    threshold = None
    if novelty:
        threshold = (agent.threshold if false_alarms is None else agent.threshold_at(false_alarms)).value
    facts = _facts(agent, threshold, false_alarms)
    graph = Graph()
    _say(graph, agent, graph.input("features", np.float32, "n", agent.width), threshold)
    data = _bytes(graph, agent, facts)
    differences = check_features(data, agent)
    if chosen is not None:
        graph = _with_encoder(agent, chosen, threshold, facts)
        data = _bytes(graph, agent, facts)
        differences = larger(differences, check_items(data, agent, chosen))
    storage.write_bytes(Path(path), data)
    body: Any = graph.model.graph
    return OnnxExport(
        tuple(value.name for value in body.input),
        tuple(value.name for value in body.output),
        None if chosen is None else chosen.fingerprint,
        differences,
        len(data),
    )


def _with_encoder(agent: Agent, encoder: InOnnx, threshold: float | None, facts: Row) -> Graph:
    """The graph that begins with what the encoder's network takes; adds to `facts` what one needs for that."""
    network = encoder.in_onnx()
    graph, X = Graph.after(network.model)
    graph.output("features", X, "n", agent.width)
    _say(graph, agent, X, threshold)
    facts |= {"kind": encoder.kind, "preprocessing": json.dumps(encoder.preprocessing), **network.facts}
    return graph


def _check_installed() -> None:
    from importlib.util import find_spec

    missing = [name for name in ("onnx", "onnxruntime") if find_spec(name) is None]
    if missing:
        raise Unavailable(f"an ONNX file needs {' and '.join(missing)}: pip install 'cual[onnx]'")


def _encoder_of(agent: Agent, wanted: bool | str | Encoder) -> InOnnx | None:
    """The encoder that goes into the file, if one does."""
    auto = wanted == "auto"
    if wanted is False or (auto and (agent.encoder is None or not is_built_in(spec_of(agent.encoder)))):
        return None
    if agent.encoder is None:
        raise NotExportable(
            "the agent does not know the encoder of its features, so no encoder can go into the file; "
            "with encoder=False it takes features"
        )
    try:
        encoder = trusted(agent.encoder, None if auto or isinstance(wanted, bool) else wanted)
    except (NotAllowed, Unavailable, WrongEncoder):  # its weights, or its package, are not on this machine
        if auto:
            return None
        raise
    if isinstance(encoder, InOnnx):
        return encoder
    raise NotExportable(
        f"{encoder.name} is no network that can be written as ONNX; with encoder=False the file takes features"
    )


def _say(graph: Graph, agent: Agent, X: Value, threshold: float | None) -> None:
    """Let the graph say what the agent says, in the order of `OUTPUTS`."""
    drawn = agent.draw(X, novelty=threshold is not None)
    shapes: dict[str, Sequence[int | str]] = dict.fromkeys(
        ("logits", "probabilities", "calibrated"), ("n", len(agent.names))
    )
    if threshold is not None:
        drawn["threshold"] = graph.constant(np.array(threshold), np.float32)
        drawn["unlike"] = drawn["novelty"].above(drawn["threshold"])
        shapes["threshold"] = ()
    for name in OUTPUTS:
        if name in drawn:
            graph.output(name, drawn[name], *shapes.get(name, ("n",)))


def _facts(agent: Agent, threshold: float | None, rate: float | None) -> Row:
    """What the file says of itself beside the graph."""
    return {
        "classes": json.dumps(list(agent.names.names), ensure_ascii=False),
        "version": str(agent.version),
        "method": agent.method.name,
        "encoder": agent.encoder or "",
        "threshold": json.dumps(threshold),
        "false_alarms": json.dumps(rate),
    }


def _bytes(graph: Graph, agent: Agent, facts: Row) -> bytes:
    """The file, checked for what every ONNX file must be."""
    from importlib.metadata import version

    import onnx
    from onnx import helper

    model = graph.model
    model.producer_name, model.producer_version = "cual", version("cual")
    model.model_version = agent.version
    model.doc_string = f"{agent.method.name}, version {agent.version}, {len(agent.names)} classes"
    helper.set_model_props(model, {f"cual.{name}": fact for name, fact in facts.items()})
    if model.ByteSize() > LARGEST:
        raise NotExportable(
            f"the file would have {model.ByteSize():,} bytes; ONNX takes {LARGEST:,} in one file"
        )
    onnx.checker.check_model(model)
    return model.SerializeToString()
