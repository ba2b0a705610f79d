"""Look at a model, measure it, change what flows through it (chapter 11)."""
import collections, contextlib, functools, torch
from tabulate import tabulate
from tinyllm.generation import distribution, next_logits
from tinyllm.text import encode, symbol

class Table(list):
    """Rows that print in columns; table[name] is the last entry of the row of that name."""
    def __init__(self, columns, rows=()):
        super().__init__(rows)
        self.columns = columns.split()
    def __getitem__(self, key):
        return dict((row[0], row[-1]) for row in self)[key] if type(key) is str else super().__getitem__(key)
    def __str__(self):
        return tabulate([row[: len(self.columns)] for row in self], self.columns, intfmt=",", floatfmt=".4f")

def ledger(model):
    """Table of the name, shape and number of parameters of each weight tensor, and the total."""
    rows = [(name, tuple(p.shape), p.numel()) for name, p in model.named_parameters()]
    return Table("tensor shape parameters", rows + [("total", "", sum(row[2] for row in rows))])

@contextlib.contextmanager
def intervene(model, changes):
    """Inside the with block, changes[name](output) replaces that module's output, unless it is None."""
    with contextlib.ExitStack() as hooks:
        for name, f in changes.items():
            hooks.enter_context(model.get_submodule(name).register_forward_hook(lambda m, x, y, f=f: f(y)))
        yield model

def zero_head(head):
    """Switches a head off: intervene(model, {"blocks.0.attention.mix": zero_head(2)})."""
    return lambda mix: mix.index_fill(1, torch.tensor([head], device=mix.device), 0.0)

Reading = collections.namedtuple("Reading", "name shape mean std tensor")  # what one brick returned
@contextlib.contextmanager
def trace(model):
    """Record what every brick and hook point returns: log["blocks.0.attention.weights"] is a tensor."""
    log = Table("name shape mean std")
    def read(name, x):  # returns None: to look is to intervene and change nothing
        log.append(Reading(name, tuple(x.shape), x.mean().item(), x.std(correction=0).item(), x.detach()))
    readers = {n: functools.partial(read, n) for n, m in model.named_modules() if not [*m.children()]}
    with intervene(model, readers):
        yield log

def next_symbols(model, prompt, top=10):
    """Table of the likeliest symbols after prompt and their probabilities."""
    best = distribution(next_logits(model, encode(prompt))).topk(min(top, model.config.vocab_size))
    return Table("next probability", zip(map(symbol, best.indices.tolist()), best.values.tolist()))

def attention_maps(model, prompt):
    """Attention weights (n_layers, n_heads, T, T) over the end of prompt: row i looks at column j."""
    with trace(model) as log:
        next_logits(model, encode(prompt))
    return torch.cat([row.tensor for row in log if row.name.endswith("attention.weights")]).cpu()

def draw_attention(model, prompt):
    """A matplotlib Figure: a row for each layer, a column for each head, the last 100 symbols at most."""
    from matplotlib.figure import Figure  # only pictures need it
    maps = attention_maps(model, prompt)[..., -100:, -100:].float().numpy()
    layers, heads, T, _ = maps.shape
    labels = [symbol(i) for i in encode(prompt)[-T:].tolist()]
    figure = Figure((max(2, T / 7) * heads, max(2, T / 7) * layers), layout="constrained")
    for i, axes in enumerate(figure.subplots(layers, heads, squeeze=False).flat):
        axes.imshow(maps[i // heads, i % heads], cmap="Purples", vmin=0, vmax=1)
        axes.set(title=f"layer {i // heads}, head {i % heads}", xlabel="looked at", ylabel="looking")
        axes.set_xticks(range(T), labels), axes.set_yticks(range(T), labels)
    return figure
