"""Convolutions, pools, linear layers, norms and activations as layers."""

from __future__ import annotations

import math
from typing import Any, Final

from isthmus.backends.caffe.layers import Blob, Layers, constant, emits, refuse, scalar, sizes
from isthmus.backends.caffe.weights import full, spread
from isthmus.ir.graph import Node, Value
from isthmus.ir.weights import Weight


def window(node: Node, kernel: Any, repeats: bool) -> dict[str, Any]:
    """Kernel, stride and padding.

    Args:
        node: a node with the attributes `strides` and `pads`.
        kernel: height and width of the kernel.
        repeats: whether the short parameters repeat, as those of a convolution do.

    Raises:
        Refused: the padding is not the same on both sides.
    """
    pads = node.attrs["pads"]
    if pads[:2] != pads[2:]:
        refuse("Caffe pads both sides alike")
    # A reader that finds one parameter in its long form may look for all of them there.
    given = {"kernel_size": kernel, "stride": node.attrs["strides"], "pad": pads[:2]}
    long = any(height != width for height, width in given.values())
    found: dict[str, Any] = {}
    for name, (height, width) in given.items():
        if long:
            stem = name.removesuffix("_size")
            found |= {f"{stem}_h": height, f"{stem}_w": width}
        elif height != (0 if name == "pad" else 1) or name == "kernel_size":
            found[name] = [height] if repeats else height
    return found


def flat_dilation(dilations: Any) -> list[int] | None:
    """The parameter `dilation`; None where there is no dilation."""
    distinct = set(dilations)
    return None if distinct == {1} else [dilations[0]] if len(distinct) == 1 else list(dilations)


@emits("conv", "conv_transpose")
def _conv(s: Layers, node: Node, x: Value, weight: Value, bias: Value | None) -> Blob:
    kernel = constant(weight, "weight")
    if len(kernel.shape) != 4:
        refuse("this says convolutions over two spatial axes only")
    attrs = node.attrs
    if any(attrs.get("output_padding", ())):
        refuse("Caffe's Deconvolution has no output padding")
    return s.add(
        "Convolution" if node.op.name == "conv" else "Deconvolution", x, blobs=_with_bias(kernel, bias),
        num_output=sizes(node.result)[1],
        bias_term=None if bias is not None else False, **window(node, kernel.shape[2:], True),
        group=None if attrs["groups"] == 1 else attrs["groups"], dilation=flat_dilation(attrs["dilations"]),
    )  # fmt: skip


def _with_bias(weight: Weight, bias: Value | None) -> list[tuple[Weight, tuple[int, ...]]]:
    held = [weight] if bias is None else [weight, constant(bias, "bias")]
    return [(each, each.shape) for each in held]


@emits("linear")
def _linear(s: Layers, node: Node, x: Value, weight: Value, bias: Value | None) -> Blob:
    if x.tensor.rank < 2:
        refuse("InnerProduct wants a batch")
    matrix = constant(weight, "weight")
    axis = x.tensor.rank - 1  # where there is none, InnerProduct flattens everything behind axis 1
    return s.add(
        "InnerProduct", x, blobs=_with_bias(matrix, bias), num_output=matrix.shape[0],
        bias_term=None if bias is not None else False,
        axis=None if axis == 1 else axis,
    )  # fmt: skip


# ---- pools


def pooled(size: int, kernel: int, stride: int, pad: int, padded: bool) -> int:
    """The number of windows that Caffe makes along an axis; `padded` says whether any axis is."""
    count = -(-(size + 2 * pad - kernel) // stride) + 1
    return count - 1 if padded and (count - 1) * stride >= size + pad else count


@emits("max_pool", "avg_pool")
def _pool(s: Layers, node: Node, x: Value) -> Blob:
    attrs, mean = node.attrs, node.op.name == "avg_pool"
    kernel, strides, pads = attrs["kernel"], attrs["strides"], attrs["pads"]
    if len(kernel) != 2:
        refuse("Caffe pools over two spatial axes")
    if set(attrs.get("dilations", (1,))) != {1}:
        refuse("Caffe does not pool with dilation")
    if mean and attrs["divisor"] is not None:
        refuse("Caffe's average has no divisor of its own")
    inside, wanted = sizes(x)[2:], sizes(node.result)[2:]
    method = "AVE" if mean else "MAX"
    if tuple(kernel) == tuple(inside) and not any(pads) and wanted == (1, 1):
        return s.add("Pooling", x, pool=method, global_pooling=True)
    shape = window(node, kernel, False)
    if any(pads) and mean and not (attrs["count_include_pad"] and s.dialect.pooling.padded_average):
        reason = "readers disagree on whether the padding counts" if attrs["count_include_pad"] else "Caffe counts the padding"
        refuse(f"{reason} in an average")
    if any(k > size + 2 * pad for k, size, pad in zip(kernel, inside, pads[:2], strict=True)):
        refuse("readers take no window that is larger than the padded input")
    if any(pad >= size for pad, size in zip(pads, (*kernel, *kernel), strict=True)):
        refuse("Caffe wants padding that is narrower than the window")
    if any(stride > size for stride, size in zip(strides, kernel, strict=True)):
        rows = zip(inside, pads[:2], kernel, strides, strict=True)
        if any((size + 2 * pad - k) % step for size, pad, k, step in rows):
            refuse("a window might begin behind the end")
    up = tuple(pooled(*each, any(pads)) for each in zip(inside, kernel, strides, pads[:2], strict=True))
    floor: dict[str, Any] = {}
    if up != wanted:
        rows = zip(inside, pads[:2], kernel, strides, strict=True)
        down = tuple((size + 2 * pad - k) // step + 1 for size, pad, k, step in rows)
        floor = dict(s.dialect.pooling.floor)
        if down != wanted or not floor:
            refuse(f"Caffe rounds the number of windows up: {list(up)}, not {list(wanted)}")
    return s.add("Pooling", x, pool=method, **shape, **floor)


# ---- norms and activations


@emits("batch_norm")
def _batch_norm(
    s: Layers, node: Node, x: Value, scale: Value | None, bias: Value | None, mean: Value, var: Value,
) -> Blob:  # fmt: skip
    shape = (sizes(x)[1],)
    statistics = [(constant(mean, "mean"), shape), (constant(var, "variance"), shape), (full((1,), 1.0), (1,))]
    found = s.add("BatchNorm", x, blobs=statistics, hint="norm", use_global_stats=True, eps=node.attrs["eps"])
    if scale is None and bias is None:
        return found
    factor = full(shape, 1.0) if scale is None else constant(scale, "scale")
    blobs = [(factor, shape)] + ([] if bias is None else [(constant(bias, "bias"), shape)])
    return s.add("Scale", found, blobs=blobs, bias_term=None if bias is None else True)


_PLAIN: Final = {
    "relu": "ReLU", "sigmoid": "Sigmoid", "tanh": "TanH", "abs": "AbsVal", "mish": "Mish", "silu": "Swish",
}  # fmt: skip


@emits(*_PLAIN)
def _activation(s: Layers, node: Node, x: Value) -> Blob:
    return s.add(_PLAIN[node.op.name], x)


@emits("leaky_relu")
def _leaky_relu(s: Layers, node: Node, x: Value) -> Blob:
    return s.add("ReLU", x, negative_slope=node.attrs["alpha"])


@emits("elu")
def _elu(s: Layers, node: Node, x: Value) -> Blob:
    return s.add("ELU", x, alpha=node.attrs["alpha"])


@emits("softplus")
def _softplus(s: Layers, node: Node, x: Value) -> Blob:
    beta, threshold = node.attrs["beta"], node.attrs["threshold"]
    if threshold < 16:
        refuse("BNLL is log(1 + exp(x)) all over, and does not turn into x at a threshold")
    scaled = x if beta == 1 else s.add("Power", x, scale=beta, hint="scaled")
    soft = s.add("BNLL", scaled, hint="soft")
    return soft if beta == 1 else s.add("Power", soft, scale=1 / beta)


@emits("prelu")
def _prelu(s: Layers, node: Node, x: Value, slope: Value) -> Blob:
    weight, shape = constant(slope, "slope"), sizes(x)
    if len(shape) < 2:
        refuse("PReLU has a slope a channel, and this has no channels")
    along = (1,) * (len(shape) - len(weight.shape)) + weight.shape
    if len(along) != len(shape) or along[1] not in (1, shape[1]) or math.prod(along) != along[1]:
        refuse("PReLU has a slope a channel")
    return s.add("PReLU", x, blobs=[(spread(weight, (shape[1],)), (shape[1],))])


@emits("softmax")
def _softmax(s: Layers, node: Node, x: Value) -> Blob:
    return s.add("Softmax", x, axis=node.attrs["axis"] % x.tensor.rank)


@emits("clip")
def _clip(s: Layers, node: Node, x: Value, lo: Value | None, hi: Value | None) -> Blob:
    least = None if lo is None else _number(lo)
    most = None if hi is None else _number(hi)
    if least is not None and most is not None and least > most:
        refuse("the bounds cross")
    if (least, most) == (0, 6) and "ReLU6" in s.dialect.layers:
        return s.add("ReLU6", x)
    found: Value | Blob = x
    if least is not None:
        found = s.add("ReLU", found, hint="above") if least == 0 else at_least(s, found, least)
    if most is not None:
        found = at_most(s, found, most)
    return found if isinstance(found, Blob) else s.add("Power", x)


def _number(value: Value) -> float:
    found = scalar(value)
    if found is None:
        refuse("a bound is computed by the model, and Caffe takes only constants there")
    return found if math.isfinite(found) else refuse("a bound is not finite")


def at_least(s: Layers, x: Value | Blob, bound: float) -> Blob:
    """The greater of x and a number: Eltwise takes it with a blob that is that number all over."""
    return s.add("Eltwise", x, s.add("Power", x, scale=0.0, shift=bound, hint="bound"), operation="MAX", hint="above")


def at_most(s: Layers, x: Value | Blob, bound: float) -> Blob:
    """The lesser of x and a number."""
    turned = s.add("Power", x, scale=-1.0, hint="turned")
    held = s.add("Power", x, scale=0.0, shift=-bound, hint="bound")
    return s.add("Power", s.add("Eltwise", turned, held, operation="MAX", hint="below"), scale=-1.0)

