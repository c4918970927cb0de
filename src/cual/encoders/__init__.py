"""Images or text to features: encoders by name, and features of whatever users have. Learning is elsewhere."""

from cual.encoders import efficientnet as _efficientnet
from cual.encoders import hugging_face as _hugging_face
from cual.encoders import onnx_file as _onnx_file
from cual.encoders import resnet as _resnet
from cual.encoders import vit as _vit
from cual.encoders.anything import features_of
from cual.encoders.base import Encoder, Setup, encoders, make, trusted
from cual.encoders.function import FunctionEncoder

del _efficientnet, _hugging_face, _onnx_file, _resnet, _vit  # imported so that they are registered

__all__ = ["Encoder", "FunctionEncoder", "Setup", "encoders", "features_of", "make", "trusted"]
