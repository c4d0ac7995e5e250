"""What each op of ONNX says in the IR's ops, one file a family."""

from isthmus.frontends.onnx.ops import elementwise as elementwise

__all__ = ["elementwise"]
