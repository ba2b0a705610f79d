"""Train the weights that come with the package, as `tinyllm train` does at its defaults, and keep what happens
on the way: `make weights`, a few minutes.

    tinyllm/pretrained.safetensors                   the weights
    docs/assets/training.json                        the record of the run, which chapter 9 reads
    docs/assets/playground/checkpoints.safetensors   the weights at some twenty moments, for "Watch it learn"

The record and the moments say which weights they lead to; tests compare that with the shipped ones. One thread
adds its numbers in one order, so the same machine and the same versions make the same bytes again. With two
threads the last digits differ, and after some thousand steps the losses do.
"""

import argparse
import hashlib
import json
from inspect import signature
from pathlib import Path

import safetensors.torch
import torch

from tinyllm import TinyLLM, encode, evaluate, generate, load_text, split, train
from tools.measure.bench import stop, write

ROOT = Path(__file__).resolve().parents[2]
SHIPPED = ROOT / "tinyllm" / "pretrained.safetensors"
RECORD = ROOT / "docs" / "assets" / "training.json"
MOMENTS = ROOT / "docs" / "assets" / "playground" / "checkpoints.safetensors"

STEPS, BATCH = (signature(train).parameters[name].default for name in ("steps", "batch"))
# After how many steps the run is looked at: more often at the start, because most happens there.
LOOKS = [0, 1, 2, 4, 8, 16, 32, 64, 100, 150, 220, 320, 460, 660, 950, 1350, 1900, 2700, 3800, 5300, 7400]
WATCHED = {"e after ' th'": (" th", "e"), "u after ' q'": (" q", "u"),
           "space or newline after 'end.'": ("end.", " \n")}
TEN = 10                       # steps whose mean loss is one number of the record


def chance(model, before, hoped):
    """The probability that one of the symbols in hoped comes after a text."""
    with torch.no_grad():
        logits = model(encode(before)[None])[0, -1]                   # (256,)
    return logits.softmax(-1)[encode(hoped)].sum().item()


def look(model, validation, step):
    """One row of the record: how good the model is after so many steps, what it predicts, and what it writes."""
    return dict(step=step, validation=round(evaluate(model, validation), 4),
                chances={name: round(chance(model, *pair), 4) for name, pair in WATCHED.items()},
                sample="The " + "".join(symbol.text for symbol in generate(model, "The ", tokens=60)))


def run(ids, steps=STEPS):
    """The trained model, the record of its training, and its weights at each look but the last."""
    torch.set_num_threads(1)
    training, validation = split(ids)
    torch.manual_seed(0)                                              # as `tinyllm train` does
    model = TinyLLM()
    looks, moments = [], []

    def keep(step):
        looks.append(look(model, validation, step))
        moments.append({name: tensor.half() for name, tensor in model.state_dict().items()})

    def on_step(step, loss):
        if step + 1 in LOOKS or step + 1 == steps:
            keep(step + 1)

    keep(0)
    losses = train(model, training, steps=steps, seed=0, on_step=on_step)
    tens = [losses[start : start + TEN] for start in range(0, steps, TEN)]
    record = dict(steps=steps, batch=BATCH, context=model.config.context,
                  text=hashlib.sha256(bytes(ids.tolist())).hexdigest(), watched=WATCHED, looks=looks,
                  losses=[round(sum(ten) / len(ten), 4) for ten in tens])
    return model, record, moments[:-1]


def moments_file(moments, record):
    """The bytes of a safetensors file in half precision: each tensor of the model, stacked over the moments."""
    stacked = {name: torch.stack([moment[name] for moment in moments]) for name in moments[0]}
    return safetensors.torch.save(stacked, {
        "tinyllm": json.dumps(vars(TinyLLM().config)),
        "steps": json.dumps([row["step"] for row in record["looks"][:-1]]),
        "validation": json.dumps([row["validation"] for row in record["looks"]]),
        "shipped": record["weights"]})


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.parse_args(argv)
    try:
        model, record, moments = run(encode(load_text()))
    except KeyboardInterrupt:
        stop("interrupted; nothing was written", 130)
    model.save(SHIPPED)
    record["weights"] = hashlib.sha256(SHIPPED.read_bytes()).hexdigest()
    write(record, RECORD)
    MOMENTS.write_bytes(moments_file(moments, record))
    print(f"val_loss {record['looks'][-1]['validation']:.4f} nats per symbol")


if __name__ == "__main__":
    main()
