"""Train the model of chapter 9 again and again, each time with one choice changed, and write what
comes out to docs/assets/ablation.json, which the chapter prints: make ablation. Two minutes a run.

    python -m tools.measure.ablation                  # all choices, on tiny-shakespeare
    python -m tools.measure.ablation --only momentum  # those with this word in their name; the others stay
"""

import argparse
import json
import math
from contextlib import ExitStack
from inspect import signature
from pathlib import Path
from unittest.mock import patch

import torch
from torch.optim import lr_scheduler

from tinyllm import Config, TinyLLM, evaluate, load_ids, split, training
from tools.measure.bench import stop, write
from tools.measure.peers import adamw, torch_muon

STEPS, BATCH = (signature(training.train).parameters[name].default for name in ("steps", "batch"))
RESULTS = Path(__file__).resolve().parents[2] / "docs" / "assets" / "ablation.json"


def recipe():
    """The numbers that the table is about."""
    model = TinyLLM()
    groups = [{name: value for name, value in group.items() if name in ("lr", "momentum", "betas", "weight_decay")}
              for optimizer in package_optimizers(model) for group in optimizer.param_groups]
    with patch.object(lr_scheduler, "LambdaLR", wraps=LambdaLR) as made:  # the factor on the rates, seen in a tiny run
        training.train(TinyLLM(Config(d_model=2, n_layers=1, n_heads=1, d_ff=1, context=1)), torch.arange(9), steps=100)
    rates = [round(made.call_args.args[1](step - 1), 4) for step in (1, 2, 50, 99)]
    said = dict(steps=STEPS, batch=BATCH, context=model.config.context, groups=groups, schedule=rates)
    return json.loads(json.dumps(said))  # tuples as lists, as they are in the file


def optimizers(tables={}, vectors={}, **matrices):
    """make_optimizers of the package with other numbers for its three groups of parameters."""
    def make(model):
        *muons, others = package_optimizers(model)
        for optimizer, kinds in [(muon, [matrices]) for muon in muons] + [(others, [tables, vectors])]:
            for group, numbers in zip(optimizer.param_groups, kinds):
                group.update(numbers)
        return [*muons, others]
    return dict(make_optimizers=make)


def random_windows(ids, batch, context, generator):
    while True:
        starts = torch.randint(len(ids) - context, (batch,), generator=generator)
        windows = ids.unfold(0, context + 1, 1)[starts].long()
        yield windows[:, :-1], windows[:, 1:]


def double_positions(model):
    model.positions.table.mul_(2)


def silence(model):
    """What each sub-layer adds, and all logits, start at zero."""
    model.head.weight.zero_()
    for block in model.blocks:
        block.attention.output.weight.zero_()
        block.ffn.down.weight.zero_()


def cosine(progress):
    return min(progress / 0.02, 1) * (1 + math.cos(math.pi * progress)) / 2


def level(progress):
    return min(progress / 0.02, 1)


package_optimizers, LambdaLR = training.make_optimizers, lr_scheduler.LambdaLR
CHOICES = {  # what is changed -> functions of tinyllm.training to replace, or other numbers
    "nothing": {},
    "AdamW alone, rate 0.005": dict(make_optimizers=adamw(0.005)),
    "Muon: momentum 0.95": optimizers(momentum=0.95),
    "Muon: momentum 0.8": optimizers(momentum=0.8),
    "Muon: rate 0.01": optimizers(lr=0.01),
    "Muon: no weight decay": optimizers(weight_decay=0.0),
    "Muon: weight decay 0.05": optimizers(weight_decay=0.05),
    "torch.optim.Muon in place of ours": dict(make_optimizers=torch_muon),
    "embedding and head: rate 0.005": optimizers(tables=dict(lr=0.005)),
    "embedding and head: rate 0.02": optimizers(tables=dict(lr=0.02)),
    "embedding and head: no weight decay": optimizers(tables=dict(weight_decay=0.0)),
    "embedding and head: weight decay 0.3": optimizers(tables=dict(weight_decay=0.3)),
    "LayerNorms: rate 0.01": optimizers(vectors=dict(lr=0.01)),
    "rates fall along a cosine": dict(schedule=cosine),
    "rates never fall": dict(schedule=level),
    "windows at random places": dict(batches=random_windows),
    "16 windows, half the steps": dict(batch=2, share=1 / 2),
    "context 64, twice the windows": dict(batch=2, context=64),
    "positions twice as large": dict(init=double_positions),
    "embedding starts with deviation 0.3": dict(init=lambda model: model.embedding.weight.normal_(0, 0.3)),
    "sub-layers and head start at zero": dict(init=silence),
}


def run(ids, seed, steps, batch=1, context=Config().context, share=1, init=lambda model: None, schedule=None, **replaced):
    """Validation loss (nats per symbol) of one training with these changes."""
    torch.manual_seed(seed)
    model, steps = TinyLLM(Config(context=context)), round(steps * share)
    with torch.no_grad():
        init(model)
    with ExitStack() as patches:
        for name, function in replaced.items():
            patches.enter_context(patch.object(training, name, function))
        if schedule:
            patches.enter_context(patch.object(lr_scheduler, "LambdaLR", lambda optimizer, _: LambdaLR(
                optimizer, lambda step: schedule((step + 1) / steps))))
        training.train(model, split(ids)[0], steps=steps, batch=round(BATCH * batch), seed=seed)
    return evaluate(model, split(ids)[1])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="shakespeare", help="as for tinyllm train (default: shakespeare)")
    parser.add_argument("--only", default="", help="run the choices whose names contain this")
    parser.add_argument("--steps", type=int, default=STEPS, help="any other number than %(default)s writes no file")
    options = parser.parse_args()
    torch.set_float32_matmul_precision("medium")  # as tinyllm train does
    chosen = {name: change for name, change in CHOICES.items() if options.only in name}
    try:
        ids, losses = load_ids(options.data), {}
        if not chosen:
            raise ValueError(f"no choice has {options.only!r} in its name: {', '.join(CHOICES)}")
        if options.only and RESULTS.exists():
            old = json.loads(RESULTS.read_text("utf-8"))
            if old["recipe"] != recipe():
                raise ValueError(f"the rows in {RESULTS.name} are of another recipe: run all of them, without --only")
            losses = old["losses"]
        for name, change in chosen.items():  # where nothing is changed, how far do the seeds differ?
            losses[name] = [round(run(ids, seed, options.steps, **change), 4) for seed in range(1 if change else 3)]
            print(f"{name:44} {losses[name]}", flush=True)
            if options.steps == STEPS:
                write(dict(recipe=recipe(), losses=losses), RESULTS)
    except KeyboardInterrupt:
        stop("interrupted; the rows so far are written", 130)
    except (OSError, ValueError) as error:
        stop(str(error).splitlines()[0], 2)


if __name__ == "__main__":
    main()
