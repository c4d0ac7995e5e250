"""Compiles PyTorch's own operator database and says which operators are right, refused, wrong or crash.

For every operator and dtype, up to four of PyTorch's sample calls become models whose tensors are inputs; each is
compiled to ONNX, run in onnxruntime and compared with eager PyTorch: dtype, shape and value of every output. Workers
run in processes of their own, so that a crash costs one operator. Writes ``docs/operators.md``.

``python bench/sweep_operators.py NAME...`` runs only those operators, prints each sample that is not right, and writes nothing.
"""

from __future__ import annotations

import argparse
import json
import logging
import subprocess
import sys
import time
import warnings
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "operators.md"
DTYPES = ("float32", "int64", "bool")
RANKS = ("crash", "wrong", "refused", "right")
"""Verdicts, the worst first: an operator has the worst of its samples."""
UNSET = {"empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided", "resize_", "resize_as_"}
"""Operators whose results nobody has set: only their dtypes and shapes are compared."""
UNORDERED = {"sort", "argsort", "topk", "kthvalue", "mode", "median", "nanmedian"}
"""Operators that may give the places of equals in any order: their indices are compared by what they pick."""


def cases() -> list[tuple[Any, str]]:
    """Every operator of the database with each dtype of the sweep that it takes on a CPU."""
    import torch
    from torch.testing._internal.common_methods_invocations import op_db

    return [(op, dtype) for op in op_db for dtype in DTYPES if op.supports_dtype(getattr(torch, dtype), "cpu")]


def samples_of(op: Any, dtype: str, most: int) -> list[Any]:
    """Up to so many sample calls, spread over all that the operator has."""
    import torch

    torch.manual_seed(0)
    drawn = list(op.sample_inputs("cpu", getattr(torch, dtype), requires_grad=False))
    step = max(1, -(-len(drawn) // most))
    return drawn[::step][:most]


def model_of(op: Any, sample: Any) -> tuple[Any, tuple[Any, ...]]:
    """The sample as a module whose arguments are the sample's tensors, and those tensors."""
    import torch
    from torch.utils import _pytree as pytree

    leaves, spec = pytree.tree_flatten(((sample.input, *sample.args), dict(sample.kwargs)))
    places = [place for place, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]

    class Sample(torch.nn.Module):
        def forward(self, *tensors: Any) -> Any:
            filled = list(leaves)
            for place, tensor in zip(places, tensors, strict=True):
                filled[place] = tensor
            args, kwargs = pytree.tree_unflatten(filled, spec)
            return op.get_op()(*args, **kwargs)

    return Sample(), tuple(leaves[place].detach().clone() for place in places)


def judge(op: Any, sample: Any) -> tuple[str, str]:
    """A sample's verdict, and why; ``"none"`` where eager PyTorch itself refuses the sample."""
    import torch
    from torch.utils import _pytree as pytree

    import isthmus
    from isthmus.ir.op import Trait

    model, tensors = model_of(op, sample)
    try:
        expected = pytree.tree_leaves(model(*(tensor.clone() for tensor in tensors)))
    except Exception as error:
        return "none", f"eager: {type(error).__name__}: {error}"
    try:
        net = isthmus.compile(model, tensors)
    except isthmus.errors.IsthmusError as error:
        return "refused", f"{type(error).__name__}: {error}"
    except Exception as error:
        return "crash", f"{type(error).__name__}: {error}"
    try:
        got = pytree.tree_leaves(net(*tensors))
    except Exception as error:
        return "wrong", f"does not run: {type(error).__name__}: {error}"
    if len(got) != len(expected):
        return "wrong", f"{len(got)} outputs, not {len(expected)}"
    values = op.name not in UNSET and not any(Trait.RANDOM in node.op.traits for node in net.graph.walk())
    axis = axis_of(op, sample) if op.name in UNORDERED else None
    for number, (mine, theirs) in enumerate(zip(got, expected, strict=True)):
        if not isinstance(theirs, torch.Tensor):
            same = type(mine) is type(theirs) and (mine == theirs or (mine != mine and theirs != theirs))
            if not same:
                return "wrong", f"output {number}: {mine!r}, not {theirs!r}"
        elif mine.dtype != theirs.dtype or mine.shape != theirs.shape:
            return "wrong", f"output {number}: {mine.dtype}{list(mine.shape)}, not {theirs.dtype}{list(theirs.shape)}"
        elif axis is not None and theirs.dtype == torch.int64 and (op.name == "argsort" or number == 1):
            if not picks_alike(tensors[0], mine, theirs, axis):
                return "wrong", f"output {number} picks other values"
        elif values and (difference := _differs(mine, theirs)):
            return "wrong", f"output {number}: {difference}"
    return "right", ""


def axis_of(op: Any, sample: Any) -> int:
    """The axis along which an operator picks."""
    import torch

    overloads = getattr(torch.ops.aten, op.name)
    arguments = (overloads.dim if op.name.endswith("median") else overloads.default)._schema.arguments[1:]
    given = {argument.name: value for argument, value in zip(arguments, sample.args, strict=False)} | sample.kwargs
    return int(given.get("dim", -1))


def picks_alike(x: Any, mine: Any, theirs: Any, axis: int) -> bool:
    """Whether two tensors of indices along an axis pick the same values, and the first none twice."""
    if mine.dim() < x.dim():
        mine, theirs = mine.unsqueeze(axis), theirs.unsqueeze(axis)
    once = not x.dim() or not (mine.sort(axis).values.diff(dim=axis) == 0).any()
    return once and not _differs(x.gather(axis, mine), x.gather(axis, theirs))


def _differs(mine: Any, theirs: Any) -> str:
    """Where two tensors differ: by 1e-4 of each value and 1e-5 of the greatest; not-a-number equals itself."""
    import torch

    if not theirs.dtype.is_floating_point and not theirs.dtype.is_complex:
        bad = mine != theirs
    else:
        finite = theirs[theirs.isfinite()].abs()
        scale = max(1.0, float(finite.max())) if finite.numel() else 1.0
        bad = ~torch.isclose(mine, theirs, rtol=1e-4, atol=1e-5 * scale, equal_nan=True)
    if not bad.any():
        return ""
    return f"{int(bad.sum())} of {bad.numel()} differ, first {mine[bad][0].item()!r}, not {theirs[bad][0].item()!r}"


def work(most: int) -> None:
    """Judges the cases whose numbers arrive on standard input, one verdict a line on standard output."""
    warnings.filterwarnings("ignore")
    logging.disable(logging.ERROR)
    table = cases()
    say, sys.stdout = sys.stdout, sys.stderr
    for line in sys.stdin:
        op, dtype = table[int(line)]
        start = time.perf_counter()
        try:
            samples = samples_of(op, dtype, most)
        except Exception as error:  # a generator of samples may need what is not installed
            verdicts = [("none", f"no samples: {type(error).__name__}: {error}")]
        else:
            verdicts = [judge(op, sample) for sample in samples]
        print(json.dumps({"verdicts": verdicts, "seconds": time.perf_counter() - start}), file=say, flush=True)


def sweep(numbers: list[int], most: int, limit: float) -> Iterator[tuple[int, dict[str, Any]]]:
    """Each case's verdicts; a worker that dies or takes longer than the limit of seconds is a crash, and replaced."""
    import selectors

    worker = None
    for number in numbers:
        if worker is None:
            worker = subprocess.Popen(
                [sys.executable, __file__, "--worker", "--samples", str(most)],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, bufsize=1,
            )  # fmt: skip
        assert worker.stdin is not None
        assert worker.stdout is not None
        worker.stdin.write(f"{number}\n")
        with selectors.DefaultSelector() as ready:
            ready.register(worker.stdout, selectors.EVENT_READ)
            line = worker.stdout.readline() if ready.select(limit) else ""
        if line:
            yield number, json.loads(line)
            continue
        died = worker.poll() is not None
        worker.kill()
        worker.wait()
        worker = None
        yield number, {"verdicts": [("crash", "the process died" if died else f"over {limit:.0f} s")], "seconds": limit}
    if worker is not None:
        worker.terminate()


def page(rows: list[dict[str, Any]]) -> str:
    """``docs/operators.md``."""
    judged = [row for row in rows if row["verdict"] != "none"]
    counts = Counter(row["verdict"] for row in judged)
    lines = [
        "# PyTorch's operator database", "",
        "Generated by `make sweep`: `torch.testing`'s `op_db`, up to four samples an operator and dtype, compiled to ONNX, run",
        "in onnxruntime, compared with eager PyTorch: dtype, shape and value of every output. An operator has the worst",
        "verdict of its samples.", "",
        "| dtype | pairs | right | refused | wrong | crash |", "| --- | --- | --- | --- | --- | --- |",
    ]  # fmt: skip
    for dtype in (*DTYPES, "all"):
        own = counts if dtype == "all" else Counter(row["verdict"] for row in judged if row["dtype"] == dtype)
        total = sum(own.values())
        right = f"{own['right']} ({own['right'] / max(1, total):.1%})"
        lines.append(f"| {dtype} | {total} | {right} | {own['refused']} | {own['wrong']} | {own['crash']} |")
    for verdict in ("crash", "wrong", "refused"):
        if not counts[verdict]:
            continue
        lines += ["", f"## {verdict.capitalize()}", "", "| operator | dtypes | why |", "| --- | --- | --- |"]
        found: dict[tuple[str, str], list[str]] = defaultdict(list)
        for row in judged:
            if row["verdict"] == verdict:
                found[row["op"], _cell(row["why"])].append(row["dtype"])
        lines += [f"| {op} | {', '.join(dtypes)} | {why} |" for (op, why), dtypes in sorted(found.items())]
    return "\n".join(lines) + "\n"


def _cell(why: str) -> str:
    reasons = [line[2:] for line in why.splitlines() if line.startswith("- ")]
    return (reasons or why.splitlines() or [""])[0].replace(f"{ROOT}/", "").replace("|", "/")[:160]


def main() -> int:
    """Runs the sweep; exits with 1 when anything is wrong or crashes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--samples", type=int, default=4, help="samples an operator and dtype")
    parser.add_argument("--limit", type=float, default=60.0, help="seconds for all samples of an operator and dtype")
    parser.add_argument("--dtype", action="append", choices=DTYPES, help="only this dtype")
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "bench" / "operators.json")
    parser.add_argument("names", nargs="*", help="only these operators, shown sample by sample")
    options = parser.parse_args()
    if options.worker:
        work(options.samples)
        return 0
    table = cases()
    names = set(options.names)
    numbers = [
        number for number, (op, dtype) in enumerate(table)
        if dtype in (options.dtype or DTYPES) and (not names or names & {op.name, full_name(op)})
    ]  # fmt: skip
    rows = []
    for number, found in sweep(numbers, options.samples, options.limit):
        op, dtype = table[number]
        verdicts = [tuple(each) for each in found["verdicts"]]
        judged = [each for each in verdicts if each[0] != "none"]
        verdict, why = min(judged, key=lambda each: RANKS.index(each[0]), default=("none", verdicts[0][1] if verdicts else ""))
        rows.append({"op": full_name(op), "dtype": dtype, "verdict": verdict, "why": why, "seconds": found["seconds"]})
        if options.names:
            for place, (each, reason) in enumerate(verdicts):
                if each != "right":
                    print(f"{full_name(op)} {dtype} sample {place}: {each} {reason}")
        elif verdict in ("crash", "wrong"):
            print(f"{len(rows)}/{len(numbers)} {full_name(op)} {dtype}: {verdict}: {why[:200]}", file=sys.stderr, flush=True)
    counts = Counter(row["verdict"] for row in rows)
    total = len(rows) - counts["none"]
    print(f"{counts['right']} of {total} right ({counts['right'] / max(1, total):.1%}), {counts['refused']} refused, "
          f"{counts['wrong']} wrong, {counts['crash']} crash; {counts['none']} without a sample that eager takes")  # fmt: skip
    if not options.names and not options.dtype:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(json.dumps(rows, indent=1))
        PAGE.write_text(page(rows))
    return int(counts["wrong"] + counts["crash"] > 0)


def full_name(op: Any) -> str:
    """The operator's name, with its variant."""
    return f"{op.name}.{op.variant_test_name}" if op.variant_test_name else str(op.name)


if __name__ == "__main__":
    sys.exit(main())
