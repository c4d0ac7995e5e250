"""The target ``caffe``."""

from isthmus.backends.caffe.backend import CaffeBackend, CaffeOptions

__all__ = ["CaffeBackend", "CaffeOptions"]
