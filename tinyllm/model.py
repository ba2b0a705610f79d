"""The whole model, in the order of the book (chapters 2 and 4 to 8)."""
from dataclasses import dataclass
import json
import os
from pathlib import Path
from safetensors.torch import safe_open, save
import torch
from torch import nn

def require(condition, message: str) -> None:
    """Raise ValueError with this message unless the condition holds."""
    if not condition:
        raise ValueError(message)

@dataclass(frozen=True)
class Config:
    """The sizes of one model. Raises ValueError for sizes that cannot be built."""
    vocab_size: int = 256     # symbols it knows: the 256 values of a byte
    d_model: int = 64         # width of the residual stream
    n_layers: int = 2         # blocks, one after the other
    n_heads: int = 4          # attention heads in a block, each d_model / n_heads wide
    d_ff: int = 128           # hidden width of the feed-forward network
    context: int = 128        # symbols it can look back on
    norm_first: bool = False  # LayerNorm before each sub-layer instead of after the addition
    bias: bool = False        # a bias vector in every Linear
    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if name in ("norm_first", "bias"):
                require(isinstance(value, bool), f"{name} must be True or False, not {value!r}")
            else:
                whole = hasattr(value, "__index__") and not isinstance(value, bool)
                require(whole and value >= 1, f"{name} must be 1, 2, 3 ..., not {value!r}")
        fits = self.d_model % 2 == 0 and self.d_model % self.n_heads == 0
        require(fits, f"d_model={self.d_model} must be even, n_heads={self.n_heads} divide it")

def causal_mask(length: int) -> torch.Tensor:
    """(length, length) of 0 and -inf, to be added to scores: row i may look at columns 0..i."""
    return torch.full((length, length), float("-inf")).triu(diagonal=1)

class Brick(nn.Module):
    """A part of the model that shows its sizes when the model is printed."""
    def __init__(self, sizes: str) -> None:
        super().__init__()
        self.sizes = sizes
    def extra_repr(self) -> str:
        return self.sizes

class HookPoint(Brick):
    """A name for a tensor that no brick returns, so that a hook can read or replace it."""
    def forward(self, x):
        return x

class Embedding(Brick):
    """A table with one learned row per symbol: ids (...) -> vectors (..., dim)."""
    def __init__(self, symbols: int, dim: int) -> None:
        super().__init__(f"{symbols} symbols -> {dim}")
        self.weight = nn.Parameter(torch.randn(symbols, dim))
    def forward(self, ids):
        return self.weight[ids]

class Linear(Brick):
    """y = x Wᵀ (+ b): vectors (..., inputs) -> (..., outputs). weight: (outputs, inputs)."""
    def __init__(self, inputs: int, outputs: int, bias: bool = False) -> None:
        super().__init__(f"{inputs} -> {outputs}" + ", bias" * bias)
        self.weight = nn.Parameter(torch.empty(outputs, inputs).uniform_(-1, 1) / inputs**0.5)
        self.bias = nn.Parameter(torch.zeros(outputs)) if bias else None
    def forward(self, x):
        y = x @ self.weight.T
        return y if self.bias is None else y + self.bias

class LayerNorm(Brick):
    """Bring each vector (..., dim) to mean 0 and variance 1; apply a learned weight and bias.
    Source: Ba, Kiros and Hinton, "Layer Normalization", 2016, equation 4."""
    def __init__(self, dim: int) -> None:
        super().__init__(f"{dim} -> {dim}")
        self.weight = nn.Parameter(torch.ones(dim))
        self.bias = nn.Parameter(torch.zeros(dim))
    def forward(self, x):
        x = x - x.mean(-1, keepdim=True)
        return x / (x.square().mean(-1, keepdim=True) + 1e-5).sqrt() * self.weight + self.bias

class Positions(Brick):
    """Add sin(t / 10000^(2i/dim)) to column 2i of position t, and the cosine to column 2i + 1.
    Source: Vaswani et al., "Attention Is All You Need", 2017, section 3.5."""
    def forward(self, x):
        T, dim = x.shape[-2:]
        angle = torch.arange(T)[:, None] / 10000 ** (torch.arange(0, dim, 2) / dim)
        waves = torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(1)    # (T, dim)
        return x + waves.to(x)

class Attention(nn.Module):
    """softmax(Q Kᵀ / √D + mask) V in H heads of width D = C / H: (B, T, C) -> (B, T, C).
    Source: Vaswani et al., 2017, equation 1 and section 3.2.3."""
    def __init__(self, config: Config) -> None:
        super().__init__()
        C, self.n_heads = config.d_model, config.n_heads
        self.query, self.key, self.value = (Linear(C, C, config.bias) for _ in range(3))
        self.q, self.k, self.v = (HookPoint("B, H, T, D") for _ in range(3))
        self.scores, self.weights = (HookPoint("B, H, T, T") for _ in range(2))
        self.mix = HookPoint("B, H, T, D")
        self.output = Linear(C, C, config.bias)
    def split(self, x):    # each head's share of the columns: (B, T, C) -> (B, H, T, D)
        return x.unflatten(-1, (self.n_heads, -1)).transpose(1, 2)
    def forward(self, x, mask):
        q = self.q(self.split(self.query(x)))                  # (B, H, T, D)
        k = self.k(self.split(self.key(x)))                    # (B, H, T, D)
        v = self.v(self.split(self.value(x)))                  # (B, H, T, D)
        scores = self.scores(q @ k.mT / q.shape[-1] ** 0.5)    # (B, H, T, T)
        weights = self.weights((scores + mask).softmax(-1))    # (B, H, T, T)
        mix = self.mix(weights @ v)                            # (B, H, T, D)
        return self.output(mix.transpose(1, 2).flatten(2))     # (B, T, C)

class FeedForward(nn.Module):
    """Widen, GELU, narrow, at each position alone: (B, T, C) -> (B, T, C)."""
    def __init__(self, config: Config) -> None:
        super().__init__()
        self.up = Linear(config.d_model, config.d_ff, config.bias)
        self.hidden = HookPoint("B, T, d_ff")
        self.down = Linear(config.d_ff, config.d_model, config.bias)
    def forward(self, x):
        return self.down(self.hidden(nn.functional.gelu(self.up(x))))

class Block(nn.Module):
    """Attention, then the FFN, each added to the residual stream: (B, T, C) -> (B, T, C)."""
    def __init__(self, config: Config) -> None:
        super().__init__()
        self.norm_first = config.norm_first
        self.attention = Attention(config)
        self.sum1 = HookPoint("B, T, C")
        self.norm1 = LayerNorm(config.d_model)
        self.ffn = FeedForward(config)
        self.sum2 = HookPoint("B, T, C")
        self.norm2 = LayerNorm(config.d_model)
    def forward(self, x, mask):
        if self.norm_first:
            x = self.sum1(x + self.attention(self.norm1(x), mask))       # (B, T, C)
            return self.sum2(x + self.ffn(self.norm2(x)))                # (B, T, C)
        x = self.norm1(self.sum1(x + self.attention(x, mask)))           # (B, T, C)
        return self.norm2(self.sum2(x + self.ffn(x)))                    # (B, T, C)

class TinyLLM(nn.Module):
    """A decoder-only Transformer: ids (B, T), T <= context -> logits (B, T, vocab_size)."""
    def __init__(self, config: Config = Config()) -> None:
        super().__init__()
        require(isinstance(config, Config), f"not a Config: {config!r:.50}")
        self.config = config
        self.embedding = Embedding(config.vocab_size, config.d_model)
        self.positions = Positions(f"{config.context} positions")
        self.mask = HookPoint("T, T")
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.n_layers))
        self.norm = LayerNorm(config.d_model) if config.norm_first else None
        self.head = Linear(config.d_model, config.vocab_size, config.bias)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        context, symbols = self.config.context, self.config.vocab_size
        fits = isinstance(ids, torch.Tensor) and ids.dtype == torch.int64 and ids.dim() == 2
        require(fits, "ids must be an int64 tensor (B, T), such as encode(text)[None]")
        require(ids.shape[1] <= context, f"{ids.shape[1]} symbols, but a context of {context}")
        if ids.numel() and not ids.is_meta and not torch.compiler.is_compiling():
            require(ids.min() >= 0 and ids.max() < symbols, f"ids must be in 0..{symbols - 1}")
        x = self.positions(self.embedding(ids))                # (B, T, C)
        mask = self.mask(causal_mask(ids.shape[1]).to(x))      # (T, T)
        for block in self.blocks:
            x = block(x, mask)                                 # (B, T, C)
        if self.norm is not None:
            x = self.norm(x)                                   # (B, T, C)
        return self.head(x)                                    # (B, T, vocab_size)

    def save(self, path: str | os.PathLike) -> None:
        """Write weights and Config as safetensors, all of it or nothing. Raises OSError."""
        path = os.path.realpath(path)                          # a link stays a link
        part = Path(f"{path}.{os.getpid()}.part")
        weights = {name: w.contiguous().clone() for name, w in self.state_dict().items()}
        try:
            sizes = json.dumps(vars(self.config), default=int)
            part.write_bytes(save(weights, {"tinyllm": sizes}))
            part.replace(path)
        finally:
            part.unlink(missing_ok=True)

    @classmethod
    def load(cls, path: str | os.PathLike) -> "TinyLLM":
        """Read what save() wrote. Raises OSError, or ValueError for what is no such file."""
        open(path, "rb").close()                               # the usual errors of a file
        try:
            with safe_open(path, "pt") as file:
                sizes = json.loads(file.metadata()["tinyllm"])
                weights = {name: file.get_tensor(name).float().clone() for name in file.keys()}
            sizes.pop("sha256", None)                          # in files of the first edition
            require(sizes["n_layers"] <= len(weights), "more blocks than weights")
            require(all(w.isfinite().all() for w in weights.values()), "weights not finite")
            with torch.device("meta"):                         # shapes, but no memory
                model = cls(Config(**sizes))
            model.load_state_dict(weights, assign=True)        # all there, and in these shapes?
        except Exception as error:                             # a file can hold anything
            raise ValueError(f"{path} is no TinyLLM checkpoint: {error!r:.150}") from None
        return model

    @classmethod
    def pretrained(cls) -> "TinyLLM":
        """The model whose weights come with the package."""
        return cls.load(Path(__file__).with_name("pretrained.safetensors"))
