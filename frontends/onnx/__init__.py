"""ONNX models as graphs: files of any opset, from any exporter."""

from isthmus.frontends.onnx.capture import CaptureOptions, OnnxCaptured, capture

__all__ = ["CaptureOptions", "OnnxCaptured", "capture"]
