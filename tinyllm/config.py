"""The sizes of a model (chapter 2)."""
from dataclasses import dataclass

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
    def __post_init__(self):
        for name, value in vars(self).items():
            if type(value) is not type(getattr(Config, name)) or value is not False and value < 1:
                raise ValueError(f"{name}={value!r}: sizes are whole numbers >= 1, the rest is True or False")
        if self.d_model % self.n_heads or self.d_model % 2:
            raise ValueError(f"d_model={self.d_model} must be even and a multiple of n_heads={self.n_heads}")
