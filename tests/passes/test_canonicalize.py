"""No-ops go, chains merge; what only looks like one stays."""

from __future__ import annotations

import numpy as np
import pytest
from golden import check

from isthmus.ir import dtypes
from isthmus.ir.dtypes import DType
from isthmus.passes import Canonicalize
from isthmus.passes.chains import lossless

WINDOW = "kernel=[2, 2], strides=[2, 2], pads=[0, 0, 0, 0], dilations=[1, 1]"

GOLDEN = {
    "identity": (
        """
        symbol N
        graph @main(%x: f32[N, 4]) {
          %0: f32[N, 4] = identity(%x)
          %1: f32[N, 4] = cast(%0) {dtype=f32}
          %2: f32[N, 4] = reshape(%1) {shape=[N, 4]}
          %3: f32[N, 4] = permute(%2) {perm=[0, 1]}
          %4: f32[N, 4] = expand(%3) {shape=[N, 4]}
          %5: f32[N, 4] = slice(%4) {axes=[0], starts=[0], ends=[N], steps=[1]}
          %6: f32[N, 4] = pad(%5, none) {before=[0, 0], after=[0, 0], mode="constant"}
          %7: f32[N, 4] = concat([%6]) {axis=0}
          %8: f32[N, 4] = clip(%7, none, none)
          %9: f32[N, 4] = neg(%8)
          return %9
        }
        """,
        """
        symbol N
        graph @main(%x: f32[N, 4]) {
          %0: f32[N, 4] = neg(%x)
          return %0
        }
        """,
    ),
    "windows of one element": (
        """
        symbol N
        symbol H
        graph @main(%x: f32[N, 4, H, 1]) {
          %0: f32[N, 4, H, 1] = adaptive_avg_pool(%x) {output_size=[H, 1]}
          %1: f32[N, 4, H, 1] = adaptive_max_pool(%0) {output_size=[H, 1]}
          %2: f32[N, 4, H, 1] = reduce_mean(%1) {axes=[3], keepdims=true}
          %3: f32[N, 4, H, 1] = max_pool(%2) {kernel=[1, 1], strides=[1, 1], pads=[0, 0, 0, 0], dilations=[1, 1]}
          %4: f32[N, 4, H, 1] = neg(%3)
          return %4
        }
        """,
        """
        symbol N
        symbol H
        graph @main(%x: f32[N, 4, H, 1]) {
          %0: f32[N, 4, H, 1] = neg(%x)
          return %0
        }
        """,
    ),
    "sizes that stay": (
        """
        symbol N
        symbol H
        graph @main(%x: f32[N, 4, H, 8]) {
          %0: f32[N, 4, H, 8] = resize(%x) {sizes=[H, 8], mode="cubic"}
          %1: f32[N, 4, H, 8] = resize(%0) {sizes=[H, 8], scales=[1.0, 1.0], mode="linear", antialias=true}
          %2: f32[N, 4, H, 8] = resize(%1) {sizes=[H, 8], scales=[1.0, 1.1], mode="linear"}
          return %2
        }
        """,
        """
        symbol N
        symbol H
        graph @main(%x: f32[N, 4, H, 8]) {
          %0: f32[N, 4, H, 8] = resize(%x) {sizes=[H, 8], mode="linear", scales=[1.0, 1.1]}
          return %0
        }
        """,
    ),
    "reshapes": (
        """
        symbol N
        graph @main(%x: f32[N, 4, 6]) {
          %0: f32[N, 24] = reshape(%x) {shape=[N, 24]}
          %1: f32[N, 1, 24] = unsqueeze(%0) {axes=[1]}
          %2: f32[N, 1, 3, 8] = reshape(%1) {shape=[N, 1, 3, 8]}
          return %2
        }
        """,
        """
        symbol N
        graph @main(%x: f32[N, 4, 6]) {
          %0: f32[N, 1, 3, 8] = reshape(%x) {shape=[N, 1, 3, 8]}
          return %0
        }
        """,
    ),
    "reshape_to_unsqueeze": (
        """
        symbol N
        graph @main(%x: f32[N, 4]) {
          %0: f32[N, 1, 4, 1] = reshape(%x) {shape=[N, 1, 4, 1]}
          return %0
        }
        """,
        """
        symbol N
        graph @main(%x: f32[N, 4]) {
          %0: f32[N, 1, 4, 1] = unsqueeze(%x) {axes=[1, 3]}
          return %0
        }
        """,
    ),
    "permutations": (
        """
        symbol N
        graph @main(%x: f32[N, 4, 6]) {
          %0: f32[4, 6, N] = permute(%x) {perm=[1, 2, 0]}
          %1: f32[N, 6, 4] = permute(%0) {perm=[2, 1, 0]}
          return %1
        }
        """,
        """
        symbol N
        graph @main(%x: f32[N, 4, 6]) {
          %0: f32[N, 6, 4] = permute(%x) {perm=[0, 2, 1]}
          return %0
        }
        """,
    ),
    "slices": (
        """
        symbol N in [8, inf]
        graph @main(%x: f32[N, 10]) {
          %0: f32[N - 2, 7] = slice(%x) {axes=[0, 1], starts=[2, 1], ends=[N, 8], steps=[1, 1]}
          %1: f32[N - 2, 3] = slice(%0) {axes=[1], starts=[1], ends=[7], steps=[2]}
          return %1
        }
        """,
        """
        symbol N in [8, inf]
        graph @main(%x: f32[N, 10]) {
          %0: f32[N - 2, 3] = slice(%x) {axes=[0, 1], starts=[2, 2], ends=[N, 8], steps=[1, 2]}
          return %0
        }
        """,
    ),
    "casts": (
        """
        graph @main(%x: f16[4], %y: i32[4]) {
          %0: f32[4] = cast(%x) {dtype=f32}
          %1: f16[4] = cast(%0) {dtype=f16}
          %2: i64[4] = cast(%y) {dtype=i64}
          %3: f32[4] = cast(%2) {dtype=f32}
          return %1, %3
        }
        """,
        """
        graph @main(%x: f16[4], %y: i32[4]) {
          %0: f32[4] = cast(%y) {dtype=f32}
          return %x, %0
        }
        """,
    ),
    "expansions": (
        """
        symbol N
        graph @main(%x: f32[N, 4], %y: f32[4]) {
          %0: f32[1, 4] = expand(%y) {shape=[1, 4]}
          %1: f32[N, 4] = expand(%0) {shape=[N, 4]}
          %2: f32[N, 4] = add(%x, %1)
          return %2
        }
        """,
        """
        symbol N
        graph @main(%x: f32[N, 4], %y: f32[4]) {
          %0: f32[N, 4] = add(%x, %y)
          return %0
        }
        """,
    ),
    "concatenations": (
        """
        graph @main(%x: f32[2, 4], %y: f32[2, 3]) {
          %0: f32[2, 7] = concat([%x, %y]) {axis=1}
          %1: f32[2, 11] = concat([%0, %x]) {axis=-1}
          return %1
        }
        """,
        """
        graph @main(%x: f32[2, 4], %y: f32[2, 3]) {
          %0: f32[2, 11] = concat([%x, %y, %x]) {axis=1}
          return %0
        }
        """,
    ),
    "twice": (
        """
        graph @main(%x: f32[4], %c: bool[4]) {
          %0: f32[4] = neg(%x)
          %1: f32[4] = neg(%0)
          %2: f32[4] = relu(%1)
          %3: f32[4] = relu(%2)
          %4: bool[4] = logical_not(%c)
          %5: bool[4] = logical_not(%4)
          return %3, %5
        }
        """,
        """
        graph @main(%x: f32[4], %c: bool[4]) {
          %0: f32[4] = relu(%x)
          return %0, %c
        }
        """,
    ),
    "neutral": (
        """
        graph @main(%x: f32[4], %y: i64[4]) {
          %one: f32[] = constant() {value=weight<f32[] [1.0]>}
          %zero: f32[] = constant() {value=weight<f32[] [0.0]>}
          %zeros: i64[4] = constant() {value=weight<i64[4] [0, 0, 0, 0]>}
          %0: f32[4] = mul(%one, %x)
          %1: f32[4] = div(%0, %one)
          %2: f32[4] = sub(%1, %zero)
          %3: f32[4] = add(%2, %zero)
          %4: i64[4] = add(%zeros, %y)
          return %3, %4
        }
        """,
        """
        graph @main(%x: f32[4], %y: i64[4]) {
          return %x, %y
        }
        """,
    ),
    "parameters of a layer before training": (
        """
        symbol N
        graph @main(%x: f32[N, 2]) {
          %w: f32[3, 2] = constant() {value=weight<f32[3, 2] [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]>}
          %zeros: f32[3] = constant() {value=weight<f32[3] [0.0, 0.0, 0.0]>}
          %ones: f32[3] = constant() {value=weight<f32[3] [1.0, 1.0, 1.0]>}
          %some: f32[3] = constant() {value=weight<f32[3] [0.0, 0.0, 1.0]>}
          %0: f32[N, 3] = linear(%x, %w, %zeros)
          %1: f32[N, 3] = layer_norm(%0, %ones, %zeros) {axis=1, eps=1e-05}
          %2: f32[N, 3] = layer_norm(%1, %ones, %some) {axis=1, eps=1e-05}
          %3: f32[N, 3] = linear(%x, %w, %some)
          return %2, %3
        }
        """,
        """
        symbol N
        graph @main(%x: f32[N, 2]) {
          %w: f32[3, 2] = constant() {value=weight<f32[3, 2] [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]>}
          %some: f32[3] = constant() {value=weight<f32[3] [0.0, 0.0, 1.0]>}
          %0: f32[N, 3] = linear(%x, %w, none)
          %1: f32[N, 3] = layer_norm(%0, none, none) {axis=1}
          %2: f32[N, 3] = layer_norm(%1, none, %some) {axis=1}
          %3: f32[N, 3] = linear(%x, %w, %some)
          return %2, %3
        }
        """,
    ),
    "neutral but larger": (
        """
        graph @main(%x: f32[4]) {
          %one: f32[2, 1] = constant() {value=weight<f32[2, 1] [1.0, 1.0]>}
          %0: f32[2, 4] = mul(%x, %one)
          return %0
        }
        """,
        """
        graph @main(%x: f32[4]) {
          %0: f32[2, 4] = expand(%x) {shape=[2, 4]}
          return %0
        }
        """,
    ),
    "axes that broadcasting puts in front": (
        """
        symbol N
        graph @main(%x: f32[N, 3, 4], %y: f32[3, 4], %z: f32[4]) {
          %0: f32[1, 3, 4] = unsqueeze(%y) {axes=[0]}
          %1: f32[N, 3, 4] = add(%x, %0)
          %2: f32[1, 4] = unsqueeze(%z) {axes=[0]}
          %3: f32[1, 4] = mul(%2, %z)
          return %1, %3
        }
        """,
        """
        symbol N
        graph @main(%x: f32[N, 3, 4], %y: f32[3, 4], %z: f32[4]) {
          %1: f32[N, 3, 4] = add(%x, %y)
          %2: f32[1, 4] = unsqueeze(%z) {axes=[0]}
          %3: f32[1, 4] = mul(%2, %z)
          return %1, %3
        }
        """,
    ),
    "axes that are merged and split again": (
        """
        symbol N
        graph @main(%x: f32[5, N, 6]) {
          %0: f32[5, 2*N, 3] = reshape(%x) {shape=[5, 2*N, 3]}
          %1: f32[2*N, 5, 3] = permute(%0) {perm=[1, 0, 2]}
          %2: f32[N, 2, 1, 5, 3, 1] = reshape(%1) {shape=[N, 2, 1, 5, 3, 1]}
          return %2
        }
        """,
        """
        symbol N
        graph @main(%x: f32[5, N, 6]) {
          %0: f32[1, 5, N, 2, 3, 1] = reshape(%x) {shape=[1, 5, N, 2, 3, 1]}
          %1: f32[N, 2, 1, 5, 3, 1] = permute(%0) {perm=[2, 3, 0, 1, 4, 5]}
          return %1
        }
        """,
    ),
    "parts that are put together again": (
        """
        symbol N in [4, inf]
        graph @main(%x: f32[N, 6], %y: f32[2, N]) {
          %0: f32[N, 2], %1: f32[N, 4] = split(%x) {axis=1, sizes=[2, 4]}
          %2: f32[N, 6] = concat([%0, %1]) {axis=1}
          %3: f32[2, 1] = slice(%y) {axes=[1], starts=[1], ends=[2], steps=[1]}
          %4: f32[2, N - 2] = slice(%y) {axes=[1], starts=[2], ends=[N], steps=[1]}
          %5: f32[2, N - 1] = concat([%3, %4]) {axis=1}
          return %2, %5
        }
        """,
        """
        symbol N in [4, inf]
        graph @main(%x: f32[N, 6], %y: f32[2, N]) {
          %0: f32[2, N - 1] = slice(%y) {axes=[1], starts=[1], ends=[N], steps=[1]}
          return %x, %0
        }
        """,
    ),
    "axes put among expanded ones, and taken from there": (
        """
        symbol N
        graph @main(%x: f32[N], %y: f32[N, 1, 1]) {
          %0: f32[3, N] = expand(%x) {shape=[3, N]}
          %1: f32[3, 1, N, 1] = unsqueeze(%0) {axes=[1, 3]}
          %2: f32[N, 1, 4] = expand(%y) {shape=[N, 1, 4]}
          %3: f32[N, 4] = squeeze(%2) {axes=[1]}
          return %1, %3
        }
        """,
        """
        symbol N
        graph @main(%x: f32[N], %y: f32[N, 1, 1]) {
          %0: f32[1, 1, N, 1] = unsqueeze(%x) {axes=[0, 1, 3]}
          %1: f32[3, 1, N, 1] = expand(%0) {shape=[3, 1, N, 1]}
          %2: f32[N, 1] = squeeze(%y) {axes=[2]}
          %3: f32[N, 4] = expand(%2) {shape=[N, 4]}
          return %1, %3
        }
        """,
    ),
    "axes that a reduction may keep or drop itself": (
        """
        symbol N
        graph @main(%x: f32[N, 3, 4]) {
          %0: f32[N, 4] = reduce_mean(%x) {axes=[1]}
          %1: f32[N, 1, 4] = unsqueeze(%0) {axes=[1]}
          %2: i64[N, 3, 1] = argmax(%x) {axis=2, keepdims=true}
          %3: i64[N, 3] = reshape(%2) {shape=[N, 3]}
          return %1, %3
        }
        """,
        """
        symbol N
        graph @main(%x: f32[N, 3, 4]) {
          %0: f32[N, 1, 4] = reduce_mean(%x) {axes=[1], keepdims=true}
          %1: i64[N, 3] = argmax(%x) {axis=2}
          return %0, %1
        }
        """,
    ),
    "unused_index": (
        """
        symbol N
        graph @main(%x: f32[N, 2, 4, 4]) {
          %0: f32[N, 2, 2, 2], %1: i64[N, 2, 2, 2] = max_pool_with_index(%x) {WINDOW, convention="flat"}
          return %0
        }
        """,
        """
        symbol N
        graph @main(%x: f32[N, 2, 4, 4]) {
          %0: f32[N, 2, 2, 2] = max_pool(%x) {WINDOW}
          return %0
        }
        """,
    ),
    "lists": (
        """
        graph @main(%x: f32[2, 3], %y: f32[2, 3]) {
          %i: i64[] = constant() {value=weight<i64[] [-1]>}
          %0: seq<f32[2, 3]> = sequence_construct([%x, %y])
          %1: f32[2, 3] = sequence_at(%0, %i)
          %2: opt<f32[2, 3]> = optional_some(%1)
          %3: f32[2, 3] = optional_get(%2)
          %4: f32[2, 3] = exp(%3)
          return %4
        }
        """,
        """
        graph @main(%x: f32[2, 3], %y: f32[2, 3]) {
          %0: f32[2, 3] = exp(%y)
          return %0
        }
        """,
    ),
}  # fmt: skip

STAYS = {
    "windows that are as many as elements": """
        graph @main(%x: f32[1, 1, 4, 4]) {
          %0: f32[1, 1, 4, 4] = max_pool(%x) {kernel=[3, 3], strides=[1, 1], pads=[1, 1, 1, 1], dilations=[1, 1]}
          %1: f32[1, 1, 4, 1] = reduce_mean(%0) {axes=[3], keepdims=true}
          return %1
        }
        """,
    "flips of different axes": """
        graph @main(%x: f32[3, 4]) {
          %0: f32[3, 4] = flip(%x) {axes=[0]}
          %1: f32[3, 4] = flip(%0) {axes=[1]}
          return %1
        }
        """,
    "clips with different bounds": """
        graph @main(%x: f32[4]) {
          %a: f32[] = constant() {value=weight<f32[] [1.0]>}
          %b: f32[] = constant() {value=weight<f32[] [2.0]>}
          %0: f32[4] = clip(%x, %a, none)
          %1: f32[4] = clip(%0, %b, none)
          return %1
        }
        """,
    "a cast that loses bits": """
        graph @main(%x: f32[4], %y: i64[4]) {
          %0: f16[4] = cast(%x) {dtype=f16}
          %1: f32[4] = cast(%0) {dtype=f32}
          %2: f32[4] = cast(%y) {dtype=f32}
          %3: i64[4] = cast(%2) {dtype=i64}
          return %1, %3
        }
        """,
    "a slice with a start, of unknown size": """
        symbol N in [2, inf]
        graph @main(%x: f32[N, 4]) {
          %0: f32[N - 1, 4] = slice(%x) {axes=[0], starts=[0], ends=[N - 1], steps=[1]}
          return %0
        }
        """,
    "a slice of a slice with steps": """
        graph @main(%x: f32[10]) {
          %0: f32[4] = slice(%x) {axes=[0], starts=[1], ends=[9], steps=[2]}
          %1: f32[2] = slice(%0) {axes=[0], starts=[1], ends=[3], steps=[1]}
          return %1
        }
        """,
    "an expansion that makes the result larger": """
        symbol N
        graph @main(%x: f32[1, 4], %y: f32[4]) {
          %0: f32[N, 4] = expand(%y) {shape=[N, 4]}
          %1: f32[N, 4] = add(%x, %0)
          return %1
        }
        """.replace("%x: f32[1, 4]", "%n: f32[N], %x: f32[1, 4]"),
    "axes that are merged behind a permutation": """
        symbol N
        graph @main(%x: f32[10, N, 3]) {
          %0: f32[2, 5, N, 3] = reshape(%x) {shape=[2, 5, N, 3]}
          %1: f32[2, N, 5, 3] = permute(%0) {perm=[0, 2, 1, 3]}
          %2: f32[2*N, 15] = reshape(%1) {shape=[2*N, 15]}
          return %2
        }
        """,
    "parts that come in another order, leave gaps, are of another axis, or are read": """
        symbol N in [4, inf]
        graph @main(%x: f32[N, 6], %y: f32[4, 4]) {
          %0: f32[N, 2], %1: f32[N, 4] = split(%x) {axis=1, sizes=[2, 4]}
          %2: f32[N, 6] = concat([%1, %0]) {axis=1}
          %3: f32[N, 2], %4: f32[N, 2], %5: f32[N, 2] = split(%x) {axis=1, sizes=[2, 2, 2]}
          %6: f32[N, 4] = concat([%3, %4]) {axis=1}
          %7: f32[4, 1] = slice(%y) {axes=[1], starts=[0], ends=[1], steps=[1]}
          %8: f32[4, 2] = slice(%y) {axes=[1], starts=[2], ends=[4], steps=[1]}
          %9: f32[4, 3] = concat([%7, %8]) {axis=1}
          %10: f32[2, 4] = slice(%y) {axes=[0], starts=[0], ends=[2], steps=[1]}
          %11: f32[2, 4] = slice(%y) {axes=[0], starts=[2], ends=[4], steps=[1]}
          %12: f32[2, 8] = concat([%10, %11]) {axis=1}
          return %2, %6, %5, %9, %12
        }
        """,
    "axes that are put back elsewhere, or read both ways": """
        symbol N
        graph @main(%x: f32[N, 3, 4]) {
          %0: f32[N, 4] = reduce_sum(%x) {axes=[1]}
          %1: f32[N, 4, 1] = unsqueeze(%0) {axes=[2]}
          %2: f32[N, 3] = reduce_max(%x) {axes=[2]}
          %3: f32[N, 3, 1] = unsqueeze(%2) {axes=[2]}
          return %1, %2, %3
        }
        """,
    "indices that are read": """
        graph @main(%x: f32[1, 2, 4, 4]) {
          %0: f32[1, 2, 2, 2], %1: i64[1, 2, 2, 2] = max_pool_with_index(%x) {WINDOW, convention="flat"}
          return %0, %1
        }
        """,
}  # fmt: skip


@pytest.mark.parametrize("name", GOLDEN)
def test_becomes(name: str) -> None:
    before, after = (text.replace("WINDOW", WINDOW) for text in GOLDEN[name])
    check(Canonicalize(), before, after)


@pytest.mark.parametrize("name", STAYS)
def test_stays(name: str) -> None:
    check(Canonicalize(), STAYS[name].replace("WINDOW", WINDOW))


def test_known_branch_moves_out() -> None:
    check(
        Canonicalize(),
        """
        graph @main(%x: f32[4]) {
          %c: bool[] = constant() {value=weight<bool[] [false]>}
          %0: f32[4] = if(%c) then {
            %1: f32[4] = exp(%x)
            return %1
          } else {
            %2: f32[4] = sin(%x)
            %3: f32[4] = cos(%2)
            return %3
          }
          return %0
        }
        """,
        """
        graph @main(%x: f32[4]) {
          %0: f32[4] = sin(%x)
          %1: f32[4] = cos(%0)
          return %1
        }
        """,
    )


BYTES = [d for d in dtypes.ALL if d.bits == 8]


@pytest.mark.parametrize("source", BYTES, ids=repr)
def test_a_cast_that_goes_loses_nothing(source: DType) -> None:
    codes = np.arange(2 if source is dtypes.bool_ else 256, dtype=np.uint8)
    values = codes.view(source.numpy).astype(np.float64)
    for target in dtypes.ALL:
        if target.kind != "string" and lossless(source, target):
            with np.errstate(all="ignore"):
                kept = values.astype(target.numpy)
            np.testing.assert_array_equal(kept.astype(np.float64), values, err_msg=str(target))
