"""The ops of ``ai.onnx.ml``: arithmetic becomes the IR's own ops; models of trees and of support vectors, texts and dicts stay
opaque nodes, whose results' types are told here, since neither files nor ONNX's inference tell all of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, NoReturn

import numpy as np

from isthmus.frontends.onnx.conversion import Conversion, Opaque
from isthmus.frontends.onnx.table import converts
from isthmus.ir.dims import Dim, product
from isthmus.ir.dtypes import DType, f32, f64, i64, string
from isthmus.ir.graph import Value
from isthmus.ir.types import Map, Tensor, Type
from isthmus.ir.types import Sequence as SequenceType

DOMAIN: Final = "ai.onnx.ml"
converts_ml = partial(converts, domain=DOMAIN)


@converts_ml("ArrayFeatureExtractor")
def array_feature_extractor(c: Conversion, x: Value, indices: Value) -> Value:
    """Columns by their numbers; of a vector as one row."""
    rows = x if c.rank(x) > 1 else c.b.unsqueeze(x, axes=[0])
    flat = c.b.reshape(indices, shape=[product(c.shape(indices))])
    made: Value = c.b.gather(rows, flat, axis=c.rank(rows) - 1)
    return made


@converts_ml("Scaler")
def scaler(c: Conversion, x: Value, *, offset: Sequence[float], scale: Sequence[float]) -> Value:
    """``(x - offset) * scale``, a number for all columns or one for each; f64 is computed as such, the result is f32."""
    dtype = f64 if x.tensor.dtype is f64 else f32
    wide = c.b.cast(x, dtype=dtype)
    shifted = c.b.sub(wide, _numbers(c, offset, dtype))
    made: Value = c.b.cast(c.b.mul(shifted, _numbers(c, scale, dtype)), dtype=f32)
    return made


def _numbers(c: Conversion, numbers: Sequence[float], dtype: DType) -> Value:
    made: Value = c.b.constant(np.array(numbers[0] if len(numbers) == 1 else numbers, dtype.numpy))
    return made


@converts_ml("Binarizer")
def binarizer(c: Conversion, x: Value, *, threshold: float = 0.0) -> Value:
    """1 where it is above the threshold, 0 elsewhere."""
    made: Value = c.b.cast(c.b.gt(x, c.same_type(threshold, x)), dtype=x.tensor.dtype)
    return made


@converts_ml("FeatureVectorizer")
def feature_vectorizer(c: Conversion, *xs: Value, inputdimensions: Sequence[int]) -> Value:
    """Columns side by side, as f32."""
    if [c.shape(x)[1:] for x in xs] != [(width,) for width in inputdimensions]:
        raise Opaque("it cuts or fills up its inputs")
    made: Value = c.b.concat([c.b.cast(x, dtype=f32) for x in xs], axis=1)
    return made


@converts_ml("LinearRegressor")
def linear_regressor(
    c: Conversion, x: Value, *, coefficients: Sequence[float], intercepts: Sequence[float] = (), targets: int = 1,
    post_transform: str = "NONE",
) -> Value:  # fmt: skip
    """A product with a matrix, and a row added."""
    if c.rank(x) != 2 or post_transform != "NONE":
        raise Opaque(f"it takes rank {c.rank(x)}, or transforms its result by {post_transform}")
    weight = c.b.constant(np.array(coefficients, np.float32).reshape(targets, -1))
    bias = c.b.constant(np.array(intercepts, np.float32)) if intercepts else None
    made: Value = c.b.linear(c.b.cast(x, dtype=f32), weight, bias)
    return made


# ---- what stays opaque: the types of its results

Attributes = dict[str, Any]
Rule = Callable[[Conversion, Value, Attributes], Sequence[Type]]


def _types(*names: str) -> Callable[[Rule], Rule]:
    """Decorator: these ops stay opaque, with results of the types that the function gives."""

    def register(rule: Rule) -> Rule:
        @converts_ml(*names)
        def opaque(c: Conversion, x: Value, **attributes: Any) -> NoReturn:
            raise Opaque("the IR has no op for it", rule(c, x, attributes))

        return rule

    return register


def _rows(c: Conversion, x: Value) -> Dim:
    """How many rows there are: one where it is a vector."""
    type = x.type
    if isinstance(type, Tensor) and type.shape is not None and len(type.shape) < 3:
        return type.shape[0] if len(type.shape) == 2 else 1
    return c.b.graph.symbols.fresh("u")


def _shape(x: Value, *more: Dim) -> tuple[Dim, ...] | None:
    type = x.type
    return (*type.shape, *more) if isinstance(type, Tensor) and type.shape is not None else None


def _labels(attributes: Attributes) -> tuple[DType, int]:
    """The element type of a classifier's labels, and how many there are."""
    numbers = attributes.get("classlabels_ints") or attributes.get("classlabels_int64s") or ()
    texts = attributes.get("classlabels_strings") or ()
    return string if texts else i64, len(texts or numbers)


@_types("Imputer")
def _same(c: Conversion, x: Value, attributes: Attributes) -> Sequence[Type]:
    return (x.type,)


@_types("Normalizer")
def _as_f32(c: Conversion, x: Value, attributes: Attributes) -> Sequence[Type]:
    return (Tensor(f32, _shape(x)),)


@_types("OneHotEncoder")
def _one_hot(c: Conversion, x: Value, attributes: Attributes) -> Sequence[Type]:
    classes = len(attributes.get("cats_int64s") or attributes.get("cats_strings") or ())
    return (Tensor(f32, _shape(x, classes)),)


@_types("CategoryMapper")
def _category(c: Conversion, x: Value, attributes: Attributes) -> Sequence[Type]:
    return (Tensor(i64 if x.tensor.dtype is string else string, _shape(x)),)


@_types("LabelEncoder")
def _label(c: Conversion, x: Value, attributes: Attributes) -> Sequence[Type]:
    if "values_tensor" in attributes:
        dtype = attributes["values_tensor"].dtype
    elif "classes_strings" in attributes:  # the first version of the op
        dtype = i64 if x.tensor.dtype is string else string
    else:
        dtype = next((dtype for dtype, name in _VALUES.items() if attributes.get(name)), None)
        if dtype is None:
            raise c.malformed("lacks the values")
    return (Tensor(dtype, _shape(x)),)


_VALUES: Final = {string: "values_strings", i64: "values_int64s", f32: "values_floats"}


@_types("LinearClassifier")
def _linear_classifier(c: Conversion, x: Value, attributes: Attributes) -> Sequence[Type]:
    dtype, classes = _labels(attributes)
    rows, shape = _rows(c, x), _shape(x)
    columns: Dim = c.b.graph.symbols.fresh("u")
    if shape and isinstance(shape[-1], int) and shape[-1]:
        scores = len(attributes.get("coefficients", ())) // shape[-1]
        columns = 2 if scores == 1 and classes == 2 else scores
    return Tensor(dtype, (rows,)), Tensor(f32, (rows, columns))


@_types("SVMClassifier")
def _svm_classifier(c: Conversion, x: Value, attributes: Attributes) -> Sequence[Type]:
    dtype, classes = _labels(attributes)
    rows = _rows(c, x)
    columns: Dim = classes if attributes.get("prob_a") else c.b.graph.symbols.fresh("u")
    return Tensor(dtype, (rows,)), Tensor(f32, (rows, columns))


@_types("TreeEnsembleClassifier")
def _tree_classifier(c: Conversion, x: Value, attributes: Attributes) -> Sequence[Type]:
    dtype, classes = _labels(attributes)
    rows = _rows(c, x)
    return Tensor(dtype, (rows,)), Tensor(f32, (rows, classes))


@_types("SVMRegressor")
def _svm_regressor(c: Conversion, x: Value, attributes: Attributes) -> Sequence[Type]:
    return (Tensor(f32, (_rows(c, x), 1)),)


@_types("TreeEnsembleRegressor")
def _tree_regressor(c: Conversion, x: Value, attributes: Attributes) -> Sequence[Type]:
    return (Tensor(f32, (_rows(c, x), attributes.get("n_targets", 1))),)


@_types("TreeEnsemble")
def _tree_ensemble(c: Conversion, x: Value, attributes: Attributes) -> Sequence[Type]:
    return (Tensor(x.tensor.dtype, (_rows(c, x), attributes.get("n_targets", 1))),)


@_types("DictVectorizer")
def _dict_vectorizer(c: Conversion, x: Value, attributes: Attributes) -> Sequence[Type]:
    columns = len(attributes.get("string_vocabulary") or attributes.get("int64_vocabulary") or ())
    element = x.type.element if isinstance(x.type, Map) else x.type
    if not isinstance(element, Tensor):
        raise c.malformed("takes a map")
    return (Tensor(element.dtype, (1, columns)),)


@_types("CastMap")
def _cast_map(c: Conversion, x: Value, attributes: Attributes) -> Sequence[Type]:
    dtype = {"TO_FLOAT": f32, "TO_INT64": i64, "TO_STRING": string}.get(attributes.get("cast_to", "TO_FLOAT"))
    if dtype is None:
        raise c.malformed("casts to another type than there is")
    sparse = attributes.get("map_form") == "SPARSE"
    return (Tensor(dtype, (1, attributes.get("max_map", 1) if sparse else c.b.graph.symbols.fresh("u"))),)


@_types("ZipMap")
def _zip_map(c: Conversion, x: Value, attributes: Attributes) -> Sequence[Type]:
    key = string if attributes.get("classlabels_strings") else i64
    return (SequenceType(Map(key, Tensor(f32, None))),)
