"""Compiles and verifies many of torchvision's models, and says which pass. Run it with ``make sweep``."""

from __future__ import annotations

import argparse
import gc
import logging
import sys
import time

import torch
import torchvision

import isthmus
from isthmus.tables import table, text

INCEPTIONS, SLOW_TO_DRAW = {"googlenet", "inception_v3"}, {"init_weights": False}
LARGE = {"vit_h_14", "regnet_y_128gf", "vit_l_16", "vit_l_32", "swin_b", "swin_v2_b", "maxvit_t"}


def main() -> int:
    """Prints one row a model; exits with 1 when one was compiled wrongly, not when one was refused."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--all", action="store_true", help="the largest models too")
    parser.add_argument("models", nargs="*", help="only these")
    options = parser.parse_args()
    logging.disable(logging.WARNING)
    names = options.models or torchvision.models.list_models(module=torchvision.models)
    rows, wrong = [], 0
    for name in names:
        if name in LARGE and not options.all and not options.models:
            continue
        torch.manual_seed(0)
        size = 299 if name == "inception_v3" else 224
        start = time.perf_counter()
        try:
            model = torchvision.models.get_model(name, weights=None, **(SLOW_TO_DRAW if name in INCEPTIONS else {}))
            for parameter in model.parameters():
                if not parameter.any():  # zeros would hide what lies before them
                    torch.nn.init.normal_(parameter, std=0.02)
            net = isthmus.compile(model.eval(), torch.randn(2, 3, size, size), dynamic_shapes=({0: "N"},))
            seconds = sum(net.report.seconds.values())
            rows.append((name, "passes", net.report.nodes["artefact"], seconds, net.verify(seeds=2).worst, ""))
        except isthmus.errors.MismatchError as error:
            wrong += 1
            rows.append((name, "WRONG", None, None, None, error.message))
        except isthmus.errors.IsthmusError as error:
            rows.append((name, "refused", None, None, None, str(error).partition("\n")[0]))
        print(f"{name}: {rows[-1][1]} in {time.perf_counter() - start:.1f} s", file=sys.stderr, flush=True)
        gc.collect()
    passed = sum(row[1] == "passes" for row in rows)
    columns = ["model", "verdict", "nodes", "compile s", "error, of scale", "why"]
    print(text(table(columns, rows), f"{passed} of {len(rows)} pass"))
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
