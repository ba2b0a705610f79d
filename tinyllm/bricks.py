"""The parts a model is built from (chapter 5)."""
import torch, torch.nn as nn

class HookPoint(nn.Identity):
    """A named place that knows its sizes and returns its input: hooks can read or replace what it returns."""
    def __init__(self, sizes):
        super().__init__()
        self.sizes = sizes
    def extra_repr(self):
        return self.sizes

class Embedding(HookPoint):
    """A table with one learned row per symbol: ids (...) -> vectors (..., dim)."""
    def __init__(self, symbols, dim):
        super().__init__(f"{symbols} symbols -> {dim}")
        self.weight = nn.Parameter(torch.randn(symbols, dim))
    def forward(self, ids):
        return self.weight.index_select(0, ids.flatten()).view(*ids.shape, self.weight.shape[1])

class Linear(HookPoint):
    """y = x Wᵀ (+ b): vectors (..., inputs) -> (..., outputs). weight is (outputs, inputs)."""
    def __init__(self, inputs, outputs, bias=False):
        super().__init__(f"{inputs} -> {outputs}" + ", bias" * bias)
        self.weight = nn.Parameter(torch.empty(outputs, inputs).uniform_(-1, 1) / inputs**0.5)
        self.bias = nn.Parameter(torch.zeros(outputs)) if bias else None
    def forward(self, x):
        y = x @ self.weight.T
        return y if self.bias is None else y + self.bias

class LayerNorm(HookPoint):
    """Bring each vector (..., dim) to mean 0 and variance 1, then apply a learned weight and bias.
    Source: Ba, Kiros and Hinton, "Layer Normalization", 2016, equation 4."""
    def __init__(self, dim):
        super().__init__(f"{dim} -> {dim}")
        self.weight, self.bias = nn.Parameter(torch.ones(dim)), nn.Parameter(torch.zeros(dim))
    def forward(self, x):
        x = x - x.mean(-1, keepdim=True)
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-5) * self.weight + self.bias

class Positions(HookPoint):
    """Add sin(t / 10000^(2i/dim)) to column 2i of the vector at position t, the cosine to column
    2i + 1. No parameters. Source: Vaswani et al., "Attention Is All You Need", 2017, section 3.5."""
    def __init__(self, context, dim):
        super().__init__(f"{context} positions, {dim} -> {dim}")
        angle = torch.arange(context)[:, None] / 10000 ** (torch.arange(0, dim, 2).double() / dim)
        self.register_buffer("table", torch.stack([angle.sin(), angle.cos()], -1).flatten(1).float(), persistent=False)
    def forward(self, x):
        return x + self.table[: x.shape[-2]]
