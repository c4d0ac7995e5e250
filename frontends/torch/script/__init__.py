"""TorchScript, interpreted under the watcher.

A scripted function would be run by torch's own interpreter, which unrolls its loops and takes its branches as the example
has them. While a model is watched, calls of scripted functions and methods come here instead: their graphs are
interpreted, ATen ops go to the watcher as those of any model, and `prim::If` and `prim::Loop` become IR ifs and loops
where only sizes or data can tell how they go.

* `values`: what lists, dicts, objects, and numbers that only data can tell are.
* `interpreter`: blocks, nodes, and the table of ops that are TorchScript's own.
* `numbers`, `containers`, `tensors`, `functions`: those ops, and calls.
* `sequences`: lists of which only data can tell the length.
* `states`: what blocks leave behind, and how that of two branches is joined.
* `branches`, `loops`: `prim::If` and `prim::Loop`; `plans`: how a loop carries each value; `outcomes`: other ways to end.
* `notation`: what TorchScript writes otherwise than Python: dtypes, places, ops, calls.
* `calls`: what is swapped in torch, and the signatures of scripted callables.
"""

from isthmus.frontends.torch.script.calls import SCRIPTED, kept, signature, swaps, untouched

__all__ = ["SCRIPTED", "kept", "signature", "swaps", "untouched"]
