"""Holds a model in PyTorch and runs it once for each line on stdin; prints the seconds.

`python benchmarks/torch_latency.py eager|compiled MODEL`, with the cores to use set from outside.
Needs torch and transformers, and nothing of this project: any interpreter may run it.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any

SEQUENCE = 128
#: What differs from the defaults, which are ResNet-50's.
RESNETS: dict[str, dict[str, Any]] = {
    "resnet50": {},
    "resnet18": {
        "layer_type": "basic",
        "depths": [2, 2, 2, 2],
        "hidden_sizes": [64, 128, 256, 512],
    },
}


def network(name: str) -> tuple[Any, tuple[Any, ...]]:
    """A model with random weights, and one input of the sizes that tune-farm tunes for."""
    import torch

    generator = torch.Generator().manual_seed(0)
    if name in RESNETS:
        from transformers import ResNetConfig, ResNetForImageClassification

        image = torch.randn((1, 3, 224, 224), generator=generator)
        return ResNetForImageClassification(ResNetConfig(**RESNETS[name], num_labels=1000)), (
            image,
        )
    if name == "bert-base":
        from transformers import BertConfig, BertModel

        ids = torch.randint(0, 30522, (1, SEQUENCE), generator=generator)
        return BertModel(BertConfig()), (ids, torch.ones_like(ids))
    raise SystemExit(f"no PyTorch model is known for {name}")


def prepare(mode: str, name: str) -> Callable[[], object]:
    """The model, ready to run: as it is, or compiled by PyTorch for these sizes."""
    import torch

    torch.set_num_threads(len(os.sched_getaffinity(0)))
    model, inputs = network(name)
    model = model.eval()
    call = torch.compile(model) if mode == "compiled" else model

    def run() -> object:
        with torch.inference_mode():
            return call(*inputs)

    return run


def main() -> None:
    """Load, then run as told."""
    import torch

    run = prepare(*sys.argv[1:3])
    for _ in range(3):  # compiles, and lets the allocator settle
        run()
    print(json.dumps({"ready": True, "version": torch.__version__}), flush=True)
    for _ in sys.stdin:
        started = time.perf_counter()
        run()
        print(json.dumps({"seconds": time.perf_counter() - started}), flush=True)


if __name__ == "__main__":
    main()
