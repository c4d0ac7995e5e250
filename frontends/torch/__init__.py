"""PyTorch models to IR, by watching them run on tensors without data."""

from isthmus.frontends.torch.capture import CaptureOptions, TorchCaptured, capture

__all__ = ["CaptureOptions", "TorchCaptured", "capture"]
