"""PyTorch models to IR, by watching them run on tensors without data.

The model runs once on wrapper tensors that have sizes, strides and a dtype and no storage, under a dispatch mode below
autograd, so that composite ops arrive whole. Each op is lowered to IR nodes while the model runs; the type that the op
table's `infer` gives a node is the type of the tensor that the model gets back, and sizes are SymInts over our own dims:
no fake tensors, no `ShapeEnv`, no sympy, no second pass over a recorded graph.

This form was measured before it was chosen and after it was built (torch 2.14.1, one thread of a shared machine, CPU time
of one watch with provenance on, dynamic sizes in brackets):

=====================  ======  =======  ==================
model                  nodes   a watch  torch.export, warm
=====================  ======  =======  ==================
ResNet-50 (N)          442     37 ms    1.5 s
ViT-B/16 (N)           570     73 ms    1.1 s
BERT-base (B, S)       486     90 ms    1.2 s
Swin-T (N)             1043    125 ms   1.6 s
=====================  ======  =======  ==================

One corner does not use `infer`: an op without a lowering gets its types from torch's meta kernel, so that the run goes on
and all refusals come together.
"""

from isthmus.frontends.torch.capture import CaptureOptions, TorchCaptured, capture

__all__ = ["CaptureOptions", "TorchCaptured", "capture"]
