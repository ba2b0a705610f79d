"""Train the model of chapter 9 again and again, each time with one choice changed, and write what comes
out to docs/assets/ablation.json, which the chapter prints. Each run has 3,000 steps, fewer than
`tinyllm train` takes, so that the whole table is a matter of a quarter of an hour.

    python -m tools.measure.ablation --data FILE                  # all choices
    python -m tools.measure.ablation --data FILE --only momentum  # those with this word; the others stay
    python -m tools.measure.ablation --data FILE --missing        # those that are not in the file yet
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

from tinyllm import Config, TinyLLM, encode, evaluate, load_text, split, training
from tools.measure.bench import stop, write
from tools.measure.peers import adamw, torch_muon

STEPS, BATCH = 3000, signature(training.train).parameters["batch"].default
SEEDS = 2                      # of the run with nothing changed; the others have seed 0
RESULTS = Path(__file__).resolve().parents[2] / "docs" / "assets" / "ablation.json"


def recipe():
    """The numbers that the table is about."""
    model = TinyLLM()
    told = ("lr", "momentum", "betas", "weight_decay")
    groups = [{name: group[name] for name in told if name in group}
              for optimizer in package_optimizers(model) for group in optimizer.param_groups]
    tiny = TinyLLM(Config(d_model=2, n_layers=1, n_heads=1, d_ff=1, context=1))
    with patch.object(lr_scheduler, "LambdaLR", wraps=LambdaLR) as made:  # the factor on the rates, seen in a tiny run
        training.train(tiny, torch.arange(9), steps=100)
    rates = [round(made.call_args.args[1](step - 1), 4) for step in (1, 2, 50, 99)]
    said = dict(steps=STEPS, batch=BATCH, context=model.config.context, groups=groups, schedule=rates)
    return json.loads(json.dumps(said))  # tuples as lists, as they are in the file


def optimizers(rest={}, **matrices):
    """make_optimizers of the package with other numbers for the matrices of the blocks, or for the rest."""
    def make(model):
        muon, others = package_optimizers(model)
        for group in muon.param_groups:
            group.update(matrices)
        for group in others.param_groups:
            group.update(rest)
        return [muon, others]
    return dict(make_optimizers=make)


def vectors_apart(model):
    """The weights and biases of the LayerNorms in a group of their own: a lower rate, no weight decay."""
    muon, others = package_optimizers(model)
    [group] = others.param_groups
    vectors = [p for p in group["params"] if p.dim() == 1]
    group["params"] = [p for p in group["params"] if p.dim() > 1]
    others.add_param_group(dict(params=vectors, lr=0.003, weight_decay=0.0))
    return [muon, others]


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
    "rates never fall": dict(schedule=level),
    "Muon: rate 0.01": optimizers(lr=0.01),
    "Muon: momentum 0.95": optimizers(momentum=0.95),
    "LayerNorms apart: rate 0.003, no weight decay": dict(make_optimizers=vectors_apart),
    "16 windows, half the steps": dict(batch=2, share=1 / 2),
    "context 64, twice the windows": dict(batch=2, context=64),
    "the rest: no weight decay": optimizers(rest=dict(weight_decay=0.0)),
    "Muon: no weight decay": optimizers(weight_decay=0.0),
    "rates fall along a cosine": dict(schedule=cosine),
    "sub-layers and head start at zero": dict(init=silence),
    "torch.optim.Muon in place of ours": dict(make_optimizers=torch_muon),
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
    parser.add_argument("--data", metavar="FILE", help="text, as for tinyllm train (default: Python's manual)")
    parser.add_argument("--only", default="", help="run the choices whose names contain this")
    parser.add_argument("--missing", action="store_true", help="run the choices that are not in the file yet")
    parser.add_argument("--steps", type=int, default=STEPS, help="any other number than %(default)s writes no file")
    options = parser.parse_args()
    chosen = {name: change for name, change in CHOICES.items() if options.only in name}
    text = Path(options.data).name if options.data else "Python's manual"
    try:
        ids, losses = encode(load_text(options.data)), {}
        if not chosen:
            raise ValueError(f"no choice has {options.only!r} in its name: {', '.join(CHOICES)}")
        if (options.only or options.missing) and RESULTS.exists():
            old = json.loads(RESULTS.read_text("utf-8"))
            if (old["recipe"], old.get("text")) != (recipe(), text):
                raise ValueError(f"the rows in {RESULTS.name} are of another recipe or text: run all of them")
            losses = old["losses"]
            chosen = {name: change for name, change in chosen.items() if not (options.missing and name in losses)}
        for name, change in chosen.items():  # where nothing is changed, how far do the seeds differ?
            seeds = range(1 if change else SEEDS)
            losses[name] = [round(run(ids, seed, options.steps, **change), 4) for seed in seeds]
            print(f"{name:46} {losses[name]}", flush=True)
            if options.steps == STEPS:
                write(dict(text=text, recipe=recipe(), losses=losses), RESULTS)
    except KeyboardInterrupt:
        stop("interrupted; the rows so far are written", 130)
    except (OSError, ValueError) as error:
        stop(str(error).splitlines()[0], 2)


if __name__ == "__main__":
    main()
