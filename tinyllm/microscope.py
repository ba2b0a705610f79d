"""Look at a model, measure it, change what flows through it (chapter 11)."""
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Callable, Iterator
from tabulate import tabulate
import torch
from tinyllm import TinyLLM, distribution, encode, next_logits, symbol

def ledger(model: TinyLLM) -> str:
    """Table of the name, shape and number of parameters of each weight tensor; the total."""
    rows = [(name, tuple(p.shape), p.numel()) for name, p in model.named_parameters()]
    rows.append(("total", "", sum(count for _, _, count in rows)))
    return tabulate(rows, ["tensor", "shape", "parameters"], intfmt=",")

@contextmanager
def intervene(model: TinyLLM, changes: dict[str, Callable]) -> Iterator[TinyLLM]:
    """Inside the with block, changes[name](output) replaces that part's output, unless None."""
    with ExitStack() as hooks:
        hooks.enter_context(torch.compiler.set_stance("force_eager"))    # compiled: no hooks
        for name, change in changes.items():
            hook = lambda part, inputs, output, change=change: change(output)
            hooks.enter_context(model.get_submodule(name).register_forward_hook(hook))
        yield model

class Log(dict):
    """Name -> tensor, in the order of the forward pass; prints a row for each."""
    def __str__(self):
        rows = [(n, tuple(x.shape), x.mean(), x.std(correction=0)) for n, x in self.items()]
        return tabulate(rows, ["name", "shape", "mean", "std"], floatfmt=".4f")

@contextmanager
def trace(model: TinyLLM) -> Iterator[Log]:
    """Record what every brick and hook point returns: log["blocks.0.attention.weights"]."""
    log = Log()
    def read(name, x):    # returns None: to look is to intervene and change nothing
        log[name] = x.detach()
    parts = [name for name, part in model.named_modules() if not list(part.children())]
    with intervene(model, {name: partial(read, name) for name in parts}):
        yield log

def next_symbols(model: TinyLLM, prompt: str, top: int = 10) -> list[tuple[str, float]]:
    """The likeliest symbols after prompt, each with its probability."""
    best = distribution(next_logits(model, encode(prompt))).sort(descending=True)
    return [(symbol(i), p) for i, p in zip(best.indices.tolist()[:top], best.values.tolist())]
