"""Everything that isthmus raises on purpose; `IsthmusError` is the base of all."""

from isthmus.ir.errors import (
    CaptureError,
    EvaluationError,
    FileError,
    InferError,
    IsthmusError,
    MismatchError,
    ParseError,
    Refusal,
    UnavailableError,
    UnsupportedError,
    UsageError,
    VerifyError,
)

__all__ = [
    "CaptureError", "EvaluationError", "FileError", "InferError", "IsthmusError", "MismatchError", "ParseError",
    "Refusal", "UnavailableError", "UnsupportedError", "UsageError", "VerifyError",
]  # fmt: skip
