"""Parts and borders: bounds that are numbers, sizes, or data, in front of the first element and behind the last."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from onnx_models import agrees, f32, i64, imported, model, text

import isthmus
from isthmus.errors import FileError

INT_MAX, INT_MIN = 2**63 - 1, -(2**63)
BOUNDS = [0, 1, 3, 5, 7, INT_MAX, -1, -4, -5, -6, INT_MIN + 1]


def _slice(start: int, end: int, step: int, size: str = "5") -> Any:
    return model(f"(float[{size}, 2] x) => (float y) <int64[1] s = {{{start}}}, int64[1] e = {{{end}}}, int64[1] a = {{0}}, "
                 f"int64[1] k = {{{step}}}> {{ y = Slice(x, s, e, a, k) }}")  # fmt: skip


@pytest.mark.parametrize("step", [1, 2, -1, -2, -7])
def test_all_bounds(step: int) -> None:
    pairs = list(itertools.product(range(len(BOUNDS)), range(len(BOUNDS))))
    names = [f"y{start}_{end}" for start, end in pairs]
    proto = model(f"""(float[5, 2] x) => ({", ".join(f"float {name}" for name in names)})
        <{", ".join(f"int64[1] b{index} = {{{bound}}}" for index, bound in enumerate(BOUNDS))},
         int64[1] a = {{0}}, int64[1] k = {{{step}}}> {{
        {" ".join(f"{name} = Slice(x, b{start}, b{end}, a, k)" for name, (start, end) in zip(names, pairs, strict=True))}
    }}""")
    x = f32(5, 2)
    first = [bound if step > 0 else max(bound, -5) for bound in BOUNDS]  # unlike Python's slices, where walking backwards
    wanted = [x[first[start] : BOUNDS[end] : step] for start, end in pairs]
    agrees(proto, [x], targets=("reference",), wanted=wanted)


@pytest.mark.parametrize(("start", "end", "step"), [
    (0, INT_MAX, 2), (-3, -1, 1), (4, INT_MIN + 1, -1), (-1, -5, -2), (INT_MAX, 1, -1), (2, 1, 1), (0, 0, -1),
])  # fmt: skip
def test_bounds_on_a_symbolic_size(start: int, end: int, step: int) -> None:
    agrees(_slice(start, end, step, "N"), [f32(5, 2)], [f32(1, 2)], [f32(8, 2)], [f32(0, 2)])


def test_bounds_that_are_sizes() -> None:
    proto = model("""(float[N, 4] x, float[M] like) => (float y, float z) <int64[1] zero = {0}, int64[1] one = {1}> {
        m = Shape(like)
        y = Slice(x, zero, m)
        z = Slice(x, one, m, zero)
    }""")
    assert "dynamic" not in text(proto)
    agrees(proto, [f32(5, 4), f32(3)], [f32(2, 4), f32(6)], [f32(4, 4), f32(0)])


@pytest.mark.parametrize(("starts", "ends"), [((0, 1), (3, 9)), ((-2, -9), (INT_MAX, -1)), ((4, 1), (1, 2))])
def test_bounds_that_are_data(starts: tuple[int, ...], ends: tuple[int, ...]) -> None:
    proto = model("(float[N, M] x, int64[2] s, int64[2] e) => (float y) { y = Slice(x, s, e) }")
    agrees(proto, [f32(5, 3), i64(*starts), i64(*ends)])


@pytest.mark.parametrize(("axes", "steps"), [((0, 2), (1, 2)), ((2, 0), (-1, 1)), ((-1, -3), (2, -2))])
def test_axes_and_steps_that_are_data(axes: tuple[int, ...], steps: tuple[int, ...]) -> None:
    inputs = ", ".join(["float[N, 2, M] x", *(f"int64[2] {name}" for name in "seak")])
    proto = model(f"({inputs}) => (float y) {{ y = Slice(x, s, e, a, k) }}")
    for starts, ends in (((0, 1), (4, 9)), ((-1, 3), (INT_MIN + 1, 0)), ((INT_MAX, -2), (-9, 99))):
        agrees(proto, [f32(5, 2, 4), *(i64(*each) for each in (starts, ends, axes, steps))])


def test_slices_of_other_opsets() -> None:
    agrees(model("(float[N, 4] x) => (float y) { y = Slice<starts = [-3, 1], ends = [-1, 99]>(x) }", 9), [f32(5, 4)])
    agrees(model("(float[N, 4] x) => (float y) { y = Slice<starts = [1], ends = [3], axes = [1]>(x) }", 9), [f32(5, 4)])
    agrees(model("(float[N, 4] x) => (float y) <int32[1] s = {1}, int32[1] e = {2147483647}> { y = Slice(x, s, e) }", 10),
           [f32(5, 4)])  # fmt: skip


@pytest.mark.parametrize("attributes", ["0, 0> a = {0}, int64[1] k", "1> a = {9}, int64[1] k"])
def test_malformed_slices_are_told(attributes: str) -> None:
    rest = "{0}" if attributes.startswith("0") else "{1}"
    with pytest.raises(FileError):
        imported(model(f"(float[5] x) => (float y) <int64[1] s = {{0}}, int64[1] e = {{1}}, "
                       f"int64[1] {attributes.split('> ')[1]} = {rest}> {{ y = Slice(x, s, e, a, k) }}"))  # fmt: skip


# ---- joined and taken apart


def test_concat() -> None:
    agrees(model("(float[N, 2] x, float[M, 2] y) => (float z) { z = Concat<axis = -2>(x, y) }"), [f32(3, 2), f32(0, 2)])
    agrees(model("(float[N, 2] x) => (float z) { z = Concat(x, x) }", 1), [f32(3, 2)],
           wanted=[np.concatenate([f32(3, 2)] * 2, 1)])  # fmt: skip


def test_split() -> None:
    three = "(float[{0}, 6] x) => (float a, float b, float c) {1} {{ a, b, c = Split{2} }}"
    for size in ("6", "N"):
        agrees(model(three.format(size, "", "<axis = 1, num_outputs = 3>(x)")), [f32(6, 6)])
        agrees(model(three.format(size, "<int64[3] s = {1, 0, 5}>", "<axis = -1>(x, s)")), [f32(6, 6)])
        agrees(model(three.format(size, "", "(x)"), 13), [f32(6, 6)])
        agrees(model(three.format(size, "", "<axis = 1, split = [1, 2, 3]>(x)"), 11), [f32(6, 6)])
    agrees(model("(float[N] x) => (float a, float b) { a, b = Split<num_outputs = 2>(x) }"), [f32(5)], [f32(4)], [f32(1)])
    agrees(model("(float[7] x) => (float a, float b, float c) { a, b, c = Split<num_outputs = 3>(x) }"), [f32(7)])
    agrees(model("(float[N] x, int64[2] s) => (float a, float b) { a, b = Split(x, s) }"),
           [f32(5), i64(2, 3)], [f32(4), i64(0, 4)])  # fmt: skip
    with pytest.raises(FileError):
        imported(model(three.format("6", "<int64[2] s = {1, 5}>", "(x, s)")))


# ---- borders


def _pad(mode: str, before: tuple[int, ...], after: tuple[int, ...], size: str = "4") -> Any:
    pads = ", ".join(map(str, (*before, *after)))
    return model(f"(float[{size}, 5] x) => (float y) <int64[4] p = {{{pads}}}> {{ y = Pad<mode = \"{mode}\">(x, p) }}", 19)


@pytest.mark.parametrize("mode", ["constant", "edge", "reflect", "wrap"])
@pytest.mark.parametrize("size", ["4", "N"])
def test_borders(mode: str, size: str) -> None:
    agrees(_pad(mode, (1, 2), (3, 0), size), [f32(4, 5)])
    # onnxruntime reads beyond what negative pads leave, except for constants
    x = f32(4, 5)[1:, :3]
    wanted = np.pad(x, [(0, 1), (2, 0)], mode)  # type: ignore[call-overload]
    agrees(_pad(mode, (-1, 2), (1, -2), size), [f32(4, 5)], targets=("reference",), wanted=[wanted])


@pytest.mark.parametrize("mode", ["constant", "edge", "reflect"])
def test_borders_that_are_data(mode: str) -> None:
    proto = model(f"(float[N, 5] x, int64[4] p) => (float y) {{ y = Pad<mode = \"{mode}\">(x, p) }}")
    agrees(proto, [f32(4, 5), i64(1, 0, 2, 3)], [f32(4, 5), i64(0, 0, 0, 0)])
    agrees(proto, [f32(4, 5), i64(0, -1, 0, -2)], wanted=[f32(4, 5)[:, 1:-2]])


def test_borders_along_some_axes() -> None:
    known = "int64[2] p = {1, 2}, float v = {7}, int64[1] a = {-1}"
    given = model(f"(float[N, 2, 3] x) => (float y) <{known}> {{ y = Pad(x, p, v, a) }}")
    agrees(given, [f32(2, 2, 3)])
    data = model("(float[N, 2, 3] x, int64[4] p, int64[2] a) => (float y) { y = Pad(x, p, , a) }", 19)
    agrees(data, [f32(2, 2, 3), i64(1, 0, 2, 1), i64(2, 0)], [f32(2, 2, 3), i64(1, 0, 2, 1), i64(-2, -1)])


def test_the_number_that_fills() -> None:
    agrees(model("(int64[N] x, int64 v) => (int64 y) <int64[2] p = {1, 2}> { y = Pad(x, p, v) }"), [i64(1, 2), np.int64(9)])
    agrees(model("(float[N] x) => (float y) { y = Pad<pads = [1, 2], value = 3.5>(x) }", 9), [f32(2)])
    agrees(model("(float[N] x) => (float y) { y = Pad<paddings = [1, 2], mode = \"edge\">(x) }", 1), [f32(2)],
           wanted=[np.pad(f32(2), (1, 2), "edge")])  # fmt: skip


def test_pads_as_torch_writes_them_are_numbers() -> None:
    proto = model("""(float[N, 3, H, W] x) => (float y)
        <int64[4] given = {1, 2, 0, 3}, int64[1] four = {4}, int64[2] shape = {-1, 2}, int64[1] back = {-1},
         int64[1] far = {-9223372036854775807}, int64[1] first = {0}, int64[1] flat = {-1}> {
        zeros = ConstantOfShape<value = int64[1] {0}>(four)
        all = Concat<axis = 0>(given, zeros)
        pairs = Reshape(all, shape)
        turned = Slice(pairs, back, far, first, back)
        other = Transpose<perm = [1, 0]>(turned)
        pads = Reshape(other, flat)
        wide = Cast<to = 7>(pads)
        y = Pad<mode = "constant">(x, wide)
    }""")
    assert "pad(%x, none) {before=[0, 0, 0, 1], after=[0, 0, 3, 2]}" in text(proto)
    agrees(proto, [f32(1, 3, 4, 5)])


@pytest.mark.parametrize("text", [
    "(float[K, M] x) => (float y) <int64[2] s = {0, -3}, int64[2] e = {2, -1}> { y = Slice(x, s, e) }",
    "(float[K, M] x) => (float y) <int64[1] s = {1}, int64[1] e = {1000}, int64[1] a = {1}, int64[1] k = {2}>"
    " { y = Slice(x, s, e, a, k) }",
    "(float[K, M] x) => (float y, float z, float w) { y, z, w = Split<axis = 1, num_outputs = 3>(x) }",
])  # fmt: skip
def test_what_numbers_say_takes_no_nodes_where_sizes_vary(text: str) -> None:
    net = isthmus.compile(model(text, 18), keep_ops=True)
    assert net.artefact.node_count == 1
    agrees(model(text, 18), [f32(3, 7)])


@pytest.mark.parametrize("opset", [11, 18])
def test_all_sizes_are_one_node_at_any_opset(opset: int) -> None:
    net = isthmus.compile(model("(float[K, 4, M] x) => (int64[3] y) { y = Shape(x) }", opset), keep_ops=True)
    assert net.artefact.node_count == 1


@pytest.mark.parametrize("opset", [9, 17])
@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_backwards_from_before_the_first_element(size: int, opset: int) -> None:
    x = np.arange(size, dtype=np.float32)
    proto = model(
        f"(float[{size}] x) => (float y) <int64[1] s = {{-3}}, int64[1] e = {{-1000}}, int64[1] a = {{0}}, int64[1] k = {{-2}}>"
        " { y = Slice(x, s, e, a, k) }", 17,
    )  # fmt: skip
    expected = [1.0] if size == 4 else [0.0]  # as onnxruntime has it, and the words of the standard
    assert isthmus.compile(proto, opset=opset)(x)["y"].tolist() == expected
    assert isthmus.compile(proto, target="reference")(x)["y"].tolist() == expected


@pytest.mark.parametrize("step", ["<int64[1] a = {0}, int64[1] k = {-2}>", "<int64[1] a = {0}, int64[1] k = {1}>", "data"])
def test_walks_whose_bounds_are_data(step: str) -> None:
    given = ", int64[1] k" if step == "data" else ""
    proto = model(
        f"(float[N] x, int64[1] s, int64[1] e{given}) => (float[M] y) {'<int64[1] a = {0}>' if given else step}"
        " { y = Slice(x, s, e, a, k) }"
    )
    bounds = itertools.product((-9, -2, 0, 3), (-9, -1, 9), (-3, -1, 2) if given else (None,))
    agrees(proto, *([f32(size), *(np.array([each]) for each in bound if each is not None)]
                    for size, bound in itertools.product((1, 4), bounds)))  # fmt: skip


@pytest.mark.parametrize(("start", "end", "step"), [(5, 1, -1), (-2, 1, -2), (7, -3, -1), (0, 3, -1)])
def test_open_sizes_are_walked_backwards_at_every_opset(start: int, end: int, step: int) -> None:
    proto = _slice(start, end, step, size="N")
    for opset in (8, 9, 13):
        net = isthmus.compile(proto, opset=opset)
        for size in (1, 3, 4, 8):
            x = f32(size, 2)
            assert np.array_equal(net(x)["y"], x[max(start, -size) : end : step]), (opset, size)
