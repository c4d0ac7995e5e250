"""The target ``tensorrt``: NVIDIA's TensorRT, and TensorRT for RTX, which builds engines without a GPU."""

from isthmus.backends.tensorrt.backend import TensorRTBackend, TensorRTOptions

__all__ = ["TensorRTBackend", "TensorRTOptions"]
