"""Other shapes, from sizes that are known, symbolic, or data."""

from __future__ import annotations

import numpy as np
import pytest
from onnx_models import agrees, f32, i64, imported, model, same, text

import isthmus
from isthmus.errors import FileError, UsageError
from isthmus.ir import parse


@pytest.mark.parametrize("shape", ["3, 4", "0, -1", "-1, 6", "2, 0, 3, 1", "-1"])
def test_reshape_to_numbers(shape: str) -> None:
    count = shape.count(",") + 1
    proto = model(f"(float[N, 2, 6] x) => (float y) <int64[{count}] s = {{{shape}}}> {{ y = Reshape(x, s) }}")
    sizes = (1, 2) if shape.startswith(("0", "-")) else (1,) if shape == "3, 4" else ()
    agrees(proto, *(f32(n, 2, 6) for n in ()), *([f32(n, 2, 6)] for n in sizes))


def test_a_shape_computed_from_sizes_is_an_attribute() -> None:
    proto = model("""(float[N, C, H, W] x) => (float y)
        <int64 zero = {0}, int64[1] axes = {0}, int64 three = {3}, int64[1] rest = {-1}> {
        s = Shape(x)
        n = Gather(s, zero)
        w = Gather(s, three)
        n1 = Unsqueeze(n, axes)
        w1 = Unsqueeze(w, axes)
        t = Concat<axis = 0>(n1, rest, w1)
        y = Reshape(x, t)
    }""")
    assert text(proto) == """\
symbol N
symbol C in [0, inf]
symbol H in [0, inf]
symbol W
either may be 1
assume N >= 1
assume W >= 1
graph @main(%x: f32[N, C, H, W]) {
  %y: f32[N, C*H, W] = reshape(%x) {shape=[N, C*H, W]}
  return %y
}"""
    agrees(proto, [f32(2, 3, 4, 5)], [f32(1, 2, 3, 4)])


def test_arithmetic_and_choices_of_sizes_are_followed() -> None:
    proto = model("""(float[N, 4, 6] x) => (float y)
        <int64[1] zero = {0}, int64[1] one = {1}, int64[1] two = {2}, int64[1] minus = {-1}, int64[3] given = {-1, 2, -1}> {
        s = Shape(x)
        lead = Slice(s, zero, one)
        h = Shape<start = -2, end = -1>(x)
        half = Div(h, two)
        w = Shape<start = 2>(x)
        more = Mul(w, half)
        t = Concat<axis = 0>(lead, half, more)
        unknown = Equal(given, minus)
        u = Where(unknown, t, given)
        y = Reshape(x, u)
    }""")
    assert "reshape(%x) {shape=[N, 2, 12]}" in text(proto)
    agrees(proto, [f32(2, 4, 6)])


def test_sizes_in_i32_are_followed() -> None:
    proto = model("""(float[N, 4, M] x) => (float y)
        <int64[1] zero = {0}, int64[1] one = {1}, int32[1] rest = {-1}> {
        s = Shape(x)
        narrow = Cast<to = 6>(s)
        n = Slice(narrow, zero, one)
        t = Concat<axis = 0>(n, rest)
        wide = Cast<to = 7>(t)
        y = Reshape(x, wide)
    }""")
    assert "reshape(%x) {shape=[N, 4*M]}" in text(proto)
    agrees(proto, [f32(2, 4, 3)])


def test_what_torch_writes_for_expand_is_an_expand() -> None:
    proto = model("""(float[N, 1, D] x, float[M, T] like) => (float y)
        <int64[1] minus = {-1}, int64 one = {1}, int64[1] a = {0}> {
        s = Shape(like)
        t = Gather(s, one)
        t1 = Unsqueeze(t, a)
        wanted = Concat<axis = 0>(minus, t1, minus)
        count = Shape(wanted)
        ones = ConstantOfShape<value = int64[1] {1}>(count)
        kept = Mul(ones, minus)
        keep = Equal(wanted, kept)
        shape = Where(keep, ones, wanted)
        y = Expand(x, shape)
    }""")
    assert text(proto).splitlines()[-3:-1] == [
        "  %y: f32[N, T, D] = expand(%x) {shape=[N, T, D]}",
        "  return %y",
    ]
    agrees(proto, [f32(2, 1, 3), f32(5, 4)], [f32(1, 1, 2), f32(1, 6)])


def test_a_shape_that_is_data_may_keep_sizes_and_leave_one_open() -> None:
    proto = model("(float[N, 3, 4] x, int64[3] s) => (float y) { y = Reshape(x, s) }")
    agrees(proto, [f32(2, 3, 4), i64(0, -1, 2)], [f32(1, 3, 4), i64(4, 0, 1)], [f32(2, 3, 4), i64(-1, 1, 0)])
    agrees(model("(float[N] x, int64[2] s) => (float y) { y = Reshape<allowzero = 1>(x, s) }"), [f32(0), i64(5, 0)])
    agrees(model("(float[1, 1] x, int64[0] s) => (float y) { y = Reshape(x, s) }"), [f32(1, 1), i64()])


@pytest.mark.parametrize("opset", [8, 9, 13])
def test_a_zero_that_is_data_is_a_size_of_0_at_older_opsets_too(opset: int) -> None:
    """There ONNX itself would have it copy a size."""
    proto = model("(float[N, K] x, int64[2] s) => (float y) { y = Reshape<allowzero = 1>(x, s) }")
    net = isthmus.compile(proto, opset=opset, strict=True)
    for sizes, shape in (((3, 0), (0, 0)), ((3, 0), (0, 5)), ((0, 3), (-1, 2)), ((2, 3), (3, 2)), ((2, 3), (6, -1))):
        x = f32(*sizes)
        same(net(x, i64(*shape))["y"], x.reshape(shape))
    net = isthmus.compile(proto, opset=opset)  # which takes for granted that there is something
    same(net(f32(2, 3), i64(3, 2))["y"], f32(2, 3).reshape(3, 2))
    with pytest.raises(UsageError, match="the size K is out of its range"):
        net(f32(3, 0), i64(0, 0))


def test_reshape_whose_shape_is_an_attribute() -> None:
    proto = model("(float[2, 6] x) => (float y) { y = Reshape<shape = [0, 3, -1]>(x) }", 1)
    agrees(proto, [f32(2, 6)], wanted=[f32(2, 6).reshape(2, 3, 2)])


@pytest.mark.parametrize("shape", ["0, -1", "-1, -1", "5, -1", "2, 3, 0"])
def test_shapes_that_do_not_fit_are_told(shape: str) -> None:
    count = shape.count(",") + 1
    proto = model(f"(float[{'0, 2' if shape[0] == '0' else '2, 3'}] x) => (float y) "
                  f"<int64[{count}] s = {{{shape}}}> {{ y = Reshape(x, s) }}")  # fmt: skip
    with pytest.raises(FileError):
        imported(proto)


@pytest.mark.parametrize(("start", "end"), [(0, None), (1, 3), (-2, None), (-9, 9), (2, 1), (0, -1)])
def test_parts_of_shapes(start: int, end: int | None) -> None:
    attributes = f"start = {start}" + (f", end = {end}" if end is not None else "")
    agrees(model(f"(float[N, 3, M] x) => (int64 y) {{ y = Shape<{attributes}>(x) }}"), [f32(2, 3, 4)], [f32(0, 3, 1)])


def test_size_of_symbols() -> None:
    agrees(model("(float[N, 3, M] x, float z) => (int64 y, int64 w) { y = Size(x) w = Size(z) }"),
           [f32(2, 3, 4), np.float32(1)], [f32(0, 3, 4), np.float32(1)])  # fmt: skip


def test_axes_of_size_one() -> None:
    agrees(model("(float[1, N, 1] x) => (float y) <int64[2] a = {0, -1}> { y = Squeeze(x, a) }"), [f32(1, 3, 1)])
    agrees(model("(float[1, 3, 1] x) => (float y) { y = Squeeze(x) }"), [f32(1, 3, 1)])
    agrees(model("(float[1, N, 1] x) => (float y) { y = Squeeze<axes = [2]>(x) }", 9), [f32(1, 3, 1)])
    agrees(model("(float[N] x) => (float y) <int64[2] a = {-1, 0}> { y = Unsqueeze(x, a) }"), [f32(3)])
    agrees(model("(float[N] x) => (float y) { y = Unsqueeze<axes = [0, 2]>(x) }", 9), [f32(3)])
    agrees(model("(float x) => (float y) <int64[1] a = {0}> { y = Unsqueeze(x, a) }"), [np.float32(3)])


def test_a_symbolic_size_is_taken_not_to_be_one() -> None:
    graph = imported(model("(float[1, N] x) => (float y) { y = Squeeze(x) }"))
    assert graph.symbols.by_name["N"].lo == 2


def test_a_size_that_was_found_to_be_one_goes() -> None:
    proto = model("(float[N] x) => (float y, float z) <int64[1] s = {0}> { y = Squeeze(x, s)  z = Squeeze(x) }")
    agrees(proto, [f32(1)])


@pytest.mark.parametrize("axes", [(0, 2), (-1, 1), (1, 2), (-4, -1)])
def test_axes_that_are_data(axes: tuple[int, ...]) -> None:
    agrees(model("(float[N, 3] x, int64[2] a) => (float y) { y = Unsqueeze(x, a) }"), [f32(2, 3), i64(*axes)])
    x = np.expand_dims(f32(2, 3), axes)
    agrees(model("(float[A, B, C, D] x, int64[2] a) => (float y) { y = Squeeze(x, a) }"), [x, i64(*axes)])


@pytest.mark.parametrize("axis", [-3, -1, 0, 1, 3])
def test_flatten(axis: int) -> None:
    agrees(model(f"(float[N, 3, M] x) => (float y) {{ y = Flatten<axis = {axis}>(x) }}"), [f32(2, 3, 4)], [f32(1, 3, 2)])


def test_flatten_of_a_scalar() -> None:
    agrees(model("(float x) => (float y) { y = Flatten<axis = 0>(x) }"), [np.float32(2)])


def test_transpose() -> None:
    agrees(model("(float[N, 3, M] x) => (float y, float z) { y = Transpose(x) z = Transpose<perm = [1, 0, 2]>(x) }"),
           [f32(2, 3, 4)])  # fmt: skip
    agrees(model("(float x) => (float y) { y = Transpose(x) }"), [np.float32(2)])


@pytest.mark.parametrize(("dims", "shape", "sizes"), [
    ("3, 1", "3, 4", (3, 1)), ("3, 1", "2, 1, 6", (3, 1)), ("N, 1", "1, 4", (3, 1)), ("N", "1", (5,)), ("N, 4", "4", (2, 4)),
    ("1", "0", (1,)), ("0, 1", "1, 3", (0, 1)),
])  # fmt: skip
def test_expand_to_numbers(dims: str, shape: str, sizes: tuple[int, ...]) -> None:
    count = shape.count(",") + 1
    proto = model(f"(float[{dims}] x) => (float y) <int64[{count}] s = {{{shape}}}> {{ y = Expand(x, s) }}")
    agrees(proto, [f32(*sizes)])
    data = model(f"(float[{dims}] x, int64[{count}] s) => (float y) {{ y = Expand(x, s) }}")
    agrees(data, [f32(*sizes), i64(*map(int, shape.split(",")))])


def test_either_size_may_be_the_one_that_is_repeated() -> None:
    proto = model("(float[N] x, float[M] like) => (float y) { s = Shape(like) y = Expand(x, s) }")
    agrees(proto, [f32(3), f32(1)], [f32(1), f32(4)], [f32(2), f32(2)])


def test_a_size_that_may_be_one_is_not_taken_for_what_it_is_expanded_to() -> None:
    proto = model("(float[N] x) => (float y, float z) <int64[1] s = {3}> { z = Relu(x)  y = Expand(z, s) }")
    assert "assume" not in text(proto)
    agrees(proto, [f32(1)], [f32(3)])


def test_either_of_two_sizes_that_broadcast_may_be_one() -> None:
    made = model(
        "(float[N, 3] x, float[M, 3] y, float[K, 1] w) => (float[P, 3] z, int64[2] s, float[Q, 3] t) "
        "{ z = Add(x, y)  s = Shape(z)  a = Mul(z, x)  t = Add(a, w) }", 18,
    )  # fmt: skip
    sizes = [(1, 5, 1), (5, 1, 5), (3, 3, 1), (0, 1, 1), (1, 0, 1), (1, 1, 7)]
    agrees(made, *([f32(n, 3), f32(m, 3), f32(k, 1)] for n, m, k in sizes))
    graph = imported(made)
    assert not graph.symbols.assumptions
    assert str(parse(str(graph))) == str(graph)


def test_a_number_expanded_to_terabytes_is_not_computed() -> None:
    proto = model("""() => (float y) <float one = {1}, int64[2] s = {4000000, 4000000}, int64 at = {3}> {
        whole = Expand(one, s)
        rows = Gather(whole, at)
        y = ReduceMax<keepdims = 0>(rows)
    }""")
    assert "expand" in text(proto)


def test_tile() -> None:
    agrees(model("(float[N, 2] x) => (float y) <int64[2] r = {2, 3}> { y = Tile(x, r) }"), [f32(2, 2)], [f32(0, 2)])
    proto = model("(float[N, 2] x, int64[2] r) => (float y) { y = Tile(x, r) }")
    agrees(proto, [f32(2, 2), i64(2, 3)], [f32(1, 2), i64(0, 1)], [f32(3, 2), i64(1, 1)])


def test_tile_along_one_axis() -> None:
    proto = model("(float[N, 2] x) => (float y) <float tiles = {3}, float axis = {1}> { y = Tile(x, tiles, axis) }", 5)
    agrees(proto, [f32(3, 2)], wanted=[np.tile(f32(3, 2), (1, 3))])
    proto = model("(float[N, 2] x, float tiles) => (float y) <float axis = {0}> { y = Tile(x, tiles, axis) }", 5)
    agrees(proto, [f32(3, 2), np.float32(2)], wanted=[np.tile(f32(3, 2), (2, 1))])


def test_a_size_of_one_more_than_what_is_halved_is_that_of_the_convolution() -> None:
    """As PyTorch's exporter writes it; ONNX's division rounds towards zero, which only matters for a size of 0."""
    proto = model("""(float[N, 1, H] x, float[4, 1, 3] w) => (float y)
        <int64[1] one = {1}, int64[1] two = {2}, int64[1] zero = {0}, int64[1] rest = {-1}> {
        c = Conv<strides = [2], pads = [1, 1]>(x, w)
        n = Shape<start = 0, end = 1>(x)
        h = Shape<start = 2>(x)
        less = Sub(h, one)
        half = Div(less, two)
        size = Add(half, one)
        t = Concat<axis = 0>(n, two, two, size)
        apart = Reshape(c, t)
        u = Concat<axis = 0>(n, rest)
        y = Reshape(apart, u)
    }""")
    assert "shape=[N, 4*((H + 1)//2)]}" in text(proto)
    agrees(proto, [f32(2, 1, 5), f32(4, 1, 3)], [f32(1, 1, 8), f32(4, 1, 3)])


def test_what_may_be_empty_is_rounded_towards_zero() -> None:
    proto = model("""(float[N] x) => (int64[1] y)
        <int64[1] one = {1}, int64[1] two = {2}> {
        n = Shape(x)
        less = Sub(n, two)
        y = Div(less, two)
    }""")
    agrees(proto, [f32(0)], [f32(1)], [f32(2)], [f32(5)])


def test_only_what_every_run_reshapes_is_known_not_to_be_empty() -> None:
    proto = model("""(float[N, C] x, bool b) => (float[P] y)
        <int64[2] rest = {0, -1}> {
        y = If(b) <then_branch = g () => (float[Q] p) <int64[1] all = {-1}>
          { r = Reshape(x, rest) p = Reshape(r, all) },
          else_branch = h () => (float[R] q) <int64[1] all = {-1}> { q = Reshape(x, all) }>
    }""")
    assert "symbol N in [0, inf]" in text(proto)


def test_a_quotient_by_a_size_that_may_be_0_is_computed_only_where_it_is_needed() -> None:
    proto = model("""(bool c, float[K, 3] x, float[A, B] y) => (float[P, Q] z) <int64[1] rest = {-1}> {
        k = Shape<end = 1>(x)
        z = If(c) <then_branch = t () => (float[I, J] u) { s = Concat<axis = 0>(k, rest) u = Reshape(y, s) },
                   else_branch = e () => (float[A, B] v) { v = Relu(y) }>
    }""")
    agrees(proto, [np.bool_(True), f32(2, 3), f32(4, 5)], [np.bool_(False), f32(0, 3), f32(4, 5)])


def test_a_negative_size_of_an_input_comes_with_a_remedy() -> None:
    proto = model("(float[2, 3] x) => (float y) { y = Relu(x) }")
    proto.graph.input[0].type.tensor_type.shape.dim[0].dim_value = -1
    with pytest.raises(FileError, match="the input 'x' has a size of -1") as caught:
        imported(proto)
    assert caught.value.remedy is not None
    assert "dim_param" in caught.value.remedy


@pytest.mark.parametrize("opset", [9, 17])
def test_an_output_that_is_listed_twice(opset: int) -> None:
    """Checker and runtimes take such files; a dict of outputs has it once."""
    proto = model("(float[2] x) => (float[2] y, float[2] y, float[2] x, float[2] x, float[2] z) { y = Relu(x) z = Neg(x) }", 17)
    net = isthmus.compile(proto, opset=opset)
    assert [each.name for each in net.artefact.model.graph.output] == ["y", "y", "x", "x", "z"]  # type: ignore[attr-defined]
    found = net.artefact.run([np.float32([-1, 2])])
    assert [array.tolist() for array in found] == [[0, 2], [0, 2], [-1, 2], [-1, 2], [1, -2]]
