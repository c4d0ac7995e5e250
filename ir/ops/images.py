"""Files of images."""

from __future__ import annotations

import io
import struct
from collections.abc import Iterable, Sequence
from typing import Any, Final

import numpy as np

from isthmus.ir.attributes import choice
from isthmus.ir.dtypes import u8
from isthmus.ir.errors import UnavailableError
from isthmus.ir.op import Call, Op, Sample, Trait, operands, register, sample
from isthmus.ir.types import Tensor, Type

CHANNELS: Final = {"rgb": 3, "bgr": 3, "grayscale": 1}


@register
class ImageDecode(Op):
    """The picture in the bytes of a file, ``u8[height, width, channels]``; without rows and columns where they are none.

    The format (BMP, JPEG, JPEG 2000, PNG, PNM, TIFF, WebP) is told by the bytes. Pillow evaluates it. What the file says of its
    size is not believed before it is decoded, and it is not folded.
    """

    name = "image_decode"
    operands = operands("content: u8")
    attributes = {"pixels": choice(*CHANNELS)("rgb")}
    traits = Trait.NONE
    source = "ONNX ImageDecoder-20"

    def infer(self, call: Call) -> Sequence[Type]:
        if len(call.shape(0)) != 1:
            raise call.error("takes the bytes of a file along one axis")
        return (Tensor(u8, (call.fresh(), call.fresh(), CHANNELS[call["pixels"]])),)

    def evaluate(self, call: Call, *operands: Any) -> Any:
        try:
            from PIL import Image
        except ImportError as error:
            raise UnavailableError("Pillow, which reads images, is not installed", remedy="pip install pillow") from error
        channels = CHANNELS[call["pixels"]]
        try:
            with Image.open(io.BytesIO(operands[0].tobytes())) as image:
                pixels = np.array(image.convert("L" if channels == 1 else "RGB"))
        except (OSError, ValueError, SyntaxError, Image.DecompressionBombError):
            return np.zeros((0, 0, channels), np.uint8)  # as the standard says
        return pixels.reshape(*pixels.shape[:2], channels)[..., :: -1 if call["pixels"] == "bgr" else 1]

    def samples(self) -> Iterable[Sample]:
        rows = (b"\x01\x02\x03\x04\x05\x06\0\0", b"\x07\x08\x09\x0a\x0b\x0c\0\0")
        picture = b"BM" + struct.pack("<IHHIIiiHHIIiiII", 70, 0, 0, 54, 40, 2, 2, 1, 24, 0, 16, 0, 0, 0, 0) + b"".join(rows)
        content = np.frombuffer(picture, np.uint8)
        for pixels in CHANNELS:
            yield sample(content, pixels=pixels, note=pixels)
        yield sample(content[:20], note="no-image")
