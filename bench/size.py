"""Measures how much memory compiling, saving, running and verifying take beyond a model's weights.

Models with 2.5 GB of weights: in memory, mapped by safetensors and by torch, on the meta device with the weights given by
file, and an ONNX file with its weights beside it. Each runs in a process of its own, whose memory is watched from outside,
about a thousand times a second. What counts is anonymous memory beyond what there was before `compile`: pages of mapped files
are the system's to drop. Prints one table, and exits with 1 when compiling and saving take more than is allowed. Run it with
``make bench``; needs Linux, 14 GB of disk at the default size, and some minutes.
"""

from __future__ import annotations

import argparse
import select
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

CASES = ("memory", "safetensors", "torch", "meta", "onnx")
STEPS, GOAL = ("compile", "save", "run", "verify"), ("compile", "save")
MEGABYTE = 10**6


def model(megabytes: int) -> Any:
    """A model without content, of so many megabytes: embedding, linear layers on sequences, convolutions with batch norm."""
    from torch import nn

    width = 2048 if megabytes > 1000 else 512 if megabytes > 100 else 64
    blocks = max(1, round((megabytes - 40_000 * width * 4 / MEGABYTE) * MEGABYTE / (8 * width * width * 4)))

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm, self.up, self.down = nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def forward(self, x: Any) -> Any:
            return x + self.down(nn.functional.gelu(self.up(self.norm(x))))

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = nn.Embedding(40_000, width)
            self.blocks = nn.Sequential(*(Block() for _ in range(blocks)))
            self.conv, self.bn = nn.Conv2d(width // 4, width // 4, 3, padding=1), nn.BatchNorm2d(width // 4)

        def forward(self, ids: Any) -> Any:
            y = self.blocks(self.table(ids))
            return self.bn(self.conv(y.reshape(y.shape[0], width // 4, 2, -1)))

    import torch

    with torch.device("meta"):
        return Net().eval()


def filled(net: Any) -> Any:
    """The model with content in memory."""
    import torch

    net.to_empty(device="cpu")
    with torch.no_grad():
        for tensor in net.state_dict().values():
            if tensor.is_floating_point():
                tensor.uniform_(0.01, 0.02)
            else:
                tensor.zero_()
    return net


def child(case: str, folder: Path, megabytes: int, goal_alone: bool) -> None:
    """Does one case, and says on standard output when each step begins; the case ``files`` writes those of the others."""
    import torch
    from safetensors.torch import load_file, save_file

    import isthmus

    files = {"safetensors": folder / "model.safetensors", "torch": folder / "model.pt"}
    ids = torch.arange(4)[None]
    if case == "files":
        state = filled(model(megabytes)).state_dict()
        save_file(state, files["safetensors"])
        torch.save(state, files["torch"])
        del state
        net = isthmus.compile(model(megabytes), ids, weights=files["safetensors"], external_data="always", passes=())
        net.save(folder / "model.onnx")
        return
    small = filled(model(1))
    warm = isthmus.compile(small, ids, external_data="always")  # imports are not what is measured
    warm.verify(seeds=1)
    warm.save(folder / "warm.onnx")
    net, options = model(megabytes), {}
    if case == "onnx":
        isthmus.compile(folder / "warm.onnx", ids.numpy()).verify(seeds=1)
        net, ids = folder / "model.onnx", ids.numpy()
    elif case == "memory":
        filled(net)
    elif case == "meta":
        options["weights"] = files["safetensors"]
    else:
        state = load_file(files[case]) if case == "safetensors" else torch.load(files[case], mmap=True, weights_only=True)
        net.load_state_dict(state, assign=True)
        del state
    tell("compile")
    compiled = isthmus.compile(net, ids, checksum=True, external_data="always", **options)
    tell("save")
    compiled.save(folder / "out.onnx")
    if not goal_alone:
        tell("run")
        compiled(ids)
        tell("verify")
        compiled.verify(seeds=1)
    tell("end")
    print(compiled.report.weights_bytes, flush=True)


def tell(step: str) -> None:
    """Lets the parent know, and waits until it does."""
    print(step, flush=True)
    sys.stdin.readline()


def anonymous(pid: int) -> int:
    """A process's anonymous memory now, in bytes."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("RssAnon"):
            return int(line.split()[1]) * 1024
    raise RuntimeError("the process has ended")


def command(case: str, folder: Path) -> list[str]:
    """What does one case in a process of its own, with the options of this one."""
    return [sys.executable, *sys.argv, "--child", case, "--folder", str(folder)]


def watch(case: str, folder: Path) -> tuple[float, dict[str, tuple[float, float]]]:
    """Runs one case: megabytes of weights; seconds and megabytes beyond them by step."""
    process = subprocess.Popen(command(case, folder), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin is not None
    assert process.stdout is not None
    found: dict[str, tuple[float, float]] = {}
    step, start, before, peak = "", 0.0, 0, 0
    while True:
        ready = select.select([process.stdout], [], [], 0.001)[0]
        if step:
            peak = max(peak, anonymous(process.pid))
        if not ready:
            continue
        line = process.stdout.readline().strip()
        if step:
            found[step] = time.perf_counter() - start, (peak - before) / MEGABYTE
        if line not in (*STEPS, "end"):
            raise SystemExit(f"the case {case} failed: {line}")
        before = before or anonymous(process.pid)
        step, start, peak = line, time.perf_counter(), 0
        process.stdin.write("\n")
        process.stdin.flush()
        if step == "end":
            weights = int(process.stdout.readline()) / MEGABYTE
            process.stdin.close()
            process.wait()
            return weights, found


def main() -> int:
    """Prints the table."""
    from isthmus.tables import table, text

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=int, default=2500, help="of weights")
    parser.add_argument("--allowed", type=float, default=300, help="megabytes beyond the weights, to compile and save")
    parser.add_argument("--cases", default=",".join(CASES), help="where the weights are")
    parser.add_argument("--goal-alone", action="store_true", help="neither run nor verify")
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--child", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        child(arguments.child, arguments.folder, arguments.megabytes, arguments.goal_alone)
        return 0
    rows = []
    met = True
    with tempfile.TemporaryDirectory(prefix="isthmus-size-") as folder:
        cases = arguments.cases.split(",")
        if cases != ["memory"]:
            subprocess.run(command("files", Path(folder)), check=True)
        for case in cases:
            weights, found = watch(case, Path(folder))
            for step, (seconds, beyond) in found.items():
                within = beyond <= arguments.allowed
                met &= within or step not in GOAL
                verdict = "" if step not in GOAL else "met" if within else "NOT MET"
                rows.append((case, round(weights), step, seconds, beyond, verdict))
    goal = f"MB beyond (goal {arguments.allowed:g})"
    print(text(table(["weights", "MB", "step", "s", goal, ""], rows)))
    return int(not met)


if __name__ == "__main__":
    sys.exit(main())
