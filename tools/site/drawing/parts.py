"""What is to be drawn: the parts of a model, read from the model."""

from dataclasses import dataclass

import torch

from tinyllm import Config, TinyLLM, trace


@dataclass(frozen=True)
class Part:
    """A line of print(model)."""
    name: str                   # where it is found: blocks.0.attention.query
    kind: str                   # its class: Linear
    sizes: str                  # as print(model) shows them: 64 -> 64
    shape: tuple[str, ...]      # of the tensor that it returns for one text, of T symbols: ("T", "64")
    parameters: int

    @property
    def short(self) -> str:
        return self.name.rpartition(".")[2]

    @property
    def size(self) -> str:
        return " × ".join(self.shape)


class Anatomy(dict):
    """Name -> part, in the order of print(model); `order` is that of the forward pass."""

    def __init__(self, config: Config, order: list[str]):
        super().__init__()
        self.config, self.order = config, order

    def before(self, one: str, other: str) -> bool:
        return self.order.index(one) < self.order.index(other)


def read(model: TinyLLM) -> Anatomy:
    """All parts of a model. One that holds others returns what the last of them returns."""
    shapes = returned(model.config)
    found = Anatomy(model.config, list(shapes))
    for name, module in model.named_modules():
        if name == "" or isinstance(module, torch.nn.ModuleList):
            continue
        last = [inner for inner in shapes if inner == name or inner.startswith(name + ".")][-1]
        count = sum(p.numel() for p in module.parameters())
        found[name] = Part(name, type(module).__name__, module.extra_repr(), shapes[last], count)
    return found


def from_config(config: Config) -> Anatomy:
    """The parts of a model of these sizes."""
    torch_state = torch.get_rng_state()
    model = TinyLLM(config)
    torch.set_rng_state(torch_state)
    return read(model)


def returned(config: Config) -> dict[str, tuple[str, ...]]:
    """What each part returns for one text, in the order in which it happens.

    Two traces, of 1 text and of 2, the second with one symbol more, tell which axes are B and T.
    """
    torch_state = torch.get_rng_state()
    model = TinyLLM(config)                     # one of its own: a trace leaves no mark, but hooks might
    torch.set_rng_state(torch_state)
    length = min(config.context, 3) - 1 or 1
    logs = []
    for texts, symbols in (1, length), (2, min(length + 1, config.context)):
        with trace(model) as log, torch.no_grad():
            model(torch.zeros(texts, symbols, dtype=torch.int64))
        logs.append(log)
    return {name: axes(x.shape, logs[1][name].shape) for name, x in logs[0].items()}


def axes(one, two) -> tuple[str, ...]:
    """The shape without its axis B, and with T where the length of the text stands."""
    pairs = list(zip(one, two))
    if pairs[0] == (1, 2) and len(pairs) > 2:   # (B, T, …): all tensors but the mask, which is (T, T)
        pairs = pairs[1:]
    return tuple("T" if a != b else str(a) for a, b in pairs)


def number(count: int, most: int = 10 ** 6) -> str:
    """4,096; from `most` on rounded, for where so many digits would not fit: 1.05 M."""
    for unit, name in (10 ** 9, " B"), (10 ** 6, " M"), (1000, " k"):
        if count >= max(unit, most):
            return f"{count / unit:.3g}{name}"
    return f"{count:,}"
