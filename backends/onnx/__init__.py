"""The target ``onnx``."""

from isthmus.backends.onnx.backend import OnnxBackend, OnnxOptions

__all__ = ["OnnxBackend", "OnnxOptions"]
