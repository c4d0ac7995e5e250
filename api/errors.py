"""Everything that isthmus raises on purpose: `IsthmusError` is the base of all errors; and what it warns with."""

from isthmus.ir.errors import (
    CaptureError,
    EvaluationError,
    FileError,
    InferError,
    IsthmusError,
    IsthmusWarning,
    MismatchError,
    ParseError,
    Refusal,
    SizeLimitError,
    UnavailableError,
    UnknownSizeError,
    UnsupportedError,
    UsageError,
    VerifyError,
)

__all__ = [
    "CaptureError", "EvaluationError", "FileError", "InferError", "IsthmusError", "IsthmusWarning", "MismatchError",
    "ParseError", "Refusal", "SizeLimitError", "UnavailableError", "UnknownSizeError", "UnsupportedError", "UsageError",
    "VerifyError",
]  # fmt: skip
