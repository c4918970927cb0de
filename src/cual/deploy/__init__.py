"""A version of an agent as others run it, without cual. Labels are exported by `cual.export`."""

from cual.deploy.onnx import OnnxExport, to_onnx

__all__ = ["OnnxExport", "to_onnx"]
