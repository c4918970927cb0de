"""Torch networks as ONNX, by tracing: one file, in a second, without further packages. Whose, encoders say."""

import warnings
from collections.abc import Mapping
from typing import IO, Any

import torch
from torch import Tensor, nn

from cual.errors import NotExportable, Unavailable

FEATURES = "features"
"""What the output of an exported network is called."""


def export(
    network: nn.Module, examples: Mapping[str, Tensor], target: str | IO[bytes], also_free: str = ""
) -> None:
    """Write a network as ONNX.

    Parameters
    ----------
    network
        Gives features (n, dim).
    examples
        Its inputs by name, as they could be; n is free.
    target
        A path or an open file.
    also_free
        What the second dimension of the inputs is called where it is free, too.
    """
    network.eval()  # the exporter gives modules their mode back, and a new one around a model is in training
    free = {0: "n", 1: also_free} if also_free else {0: "n"}
    with warnings.catch_warnings(), torch.inference_mode():
        warnings.simplefilter("ignore")  # the tracing exporter warns at every shape it takes as given
        torch.onnx.export(
            network,
            tuple(examples.values()),
            target,  # pyright: ignore[reportArgumentType]  # an open file does for the tracing exporter
            input_names=list(examples),
            output_names=[FEATURES],
            dynamic_axes={**dict.fromkeys(examples, free), FEATURES: {0: "n"}},
            dynamo=False,
        )


def as_model(name: str, network: nn.Module, examples: Mapping[str, Tensor], also_free: str = "") -> Any:
    """A network as an `onnx.ModelProto`, or a named error."""
    import io

    try:
        import onnx
    except ImportError as error:
        raise Unavailable("this needs onnx: pip install 'cual[onnx]'") from error
    file = io.BytesIO()
    try:
        export(network, examples, file, also_free)
    except Exception as error:  # tracing raises what it likes at what it cannot say
        why = (str(error).strip() or repr(error)).splitlines()[0][:300]
        raise NotExportable(f"the network of {name} cannot be written as ONNX: {why}") from error
    return onnx.load_from_string(file.getvalue())
