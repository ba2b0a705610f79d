"""Train as `make weights` does and keep the weights at some twenty moments of the run, for the
playground's "Watch it learn": python -m tools.measure.checkpoints, as long as
`tinyllm train` takes at its defaults, and a little more.

One safetensors file in half precision: each tensor of the model, stacked over the moments. The end of the
run is not in it: that is the shipped model, which the page has already. A change of the training or of the
shipped weights makes the file out of date; it says in its metadata which weights it leads to."""

import hashlib
import json
from pathlib import Path

import safetensors.torch
import torch

import tinyllm

ROOT = Path(__file__).resolve().parents[2]

STEPS = [0, 1, 2, 4, 8, 16, 32, 64, 100, 150, 220, 320, 460, 660, 950, 1350, 1900, 2700, 3800, 5300, 7400]
SHIPPED = ROOT / "tinyllm" / "pretrained.safetensors"
OUT = ROOT / "docs" / "assets" / "playground" / "checkpoints.safetensors"


def main():
    torch.manual_seed(0)                     # as `tinyllm train` does
    model = tinyllm.TinyLLM()
    training, validation = tinyllm.split(tinyllm.encode(tinyllm.load_text()))
    moments, losses = [], []

    def keep():
        moments.append({name: tensor.half() for name, tensor in model.state_dict().items()})
        losses.append(round(tinyllm.evaluate(model, validation), 4))

    def on_step(step, loss):
        if step + 1 in STEPS:
            keep()

    keep()                                   # before the first step
    tinyllm.train(model, training, seed=0, on_step=on_step)
    shipped = tinyllm.TinyLLM.pretrained()
    difference = max((a - b).abs().max().item() for a, b in zip(model.state_dict().values(), shipped.state_dict().values()))
    print(f"largest difference from the shipped weights: {difference:.2g}")
    stacked = {name: torch.stack([moment[name] for moment in moments]) for name in moments[0]}
    metadata = {"tinyllm": json.dumps(vars(model.config)), "steps": json.dumps(STEPS),
                "validation": json.dumps(losses + [round(tinyllm.evaluate(shipped, validation), 4)]),
                "shipped": hashlib.sha256(SHIPPED.read_bytes()).hexdigest()}
    OUT.write_bytes(safetensors.torch.save(stacked, metadata))
    print(f"wrote {OUT.relative_to(ROOT)}: {OUT.stat().st_size / 1e6:.1f} MB, validation losses {losses}")


if __name__ == "__main__":
    main()
