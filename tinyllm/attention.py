"""Multi-head causal self-attention, every step by hand (chapter 6)."""
from torch import nn
from tinyllm.bricks import HookPoint, Linear
from tinyllm.mask import causal_mask

class CausalSelfAttention(nn.Module):
    """softmax(Q Kᵀ / √D + mask) V in H heads of width D = C / H: (B, T, C) -> (B, T, C).
    Source: Vaswani et al., 2017, equation 1, with the causal mask of their section 3.2.3."""
    def __init__(self, config):
        super().__init__()
        C, self.n_heads = config.d_model, config.n_heads
        self.query, self.key, self.value = (Linear(C, C, config.bias) for _ in range(3))
        self.q, self.k, self.v = (HookPoint("B, H, T, D") for _ in range(3))
        self.scores, self.weights = (HookPoint("B, H, T, T") for _ in range(2))
        self.mix, self.output = HookPoint("B, H, T, D"), Linear(C, C, config.bias)
        self.register_buffer("mask", causal_mask(config.context), persistent=False)
    def forward(self, x):
        T, heads = x.shape[1], (self.n_heads, -1)
        q = self.q(self.query(x).unflatten(-1, heads).transpose(1, 2))       # (B, H, T, D)
        k = self.k(self.key(x).unflatten(-1, heads).transpose(1, 2))         # (B, H, T, D)
        v = self.v(self.value(x).unflatten(-1, heads).transpose(1, 2))       # (B, H, T, D)
        scores = self.scores((q / q.shape[-1]**0.5) @ k.transpose(-2, -1))   # (B, H, T, T)
        weights = self.weights((scores + self.mask[:T, :T]).softmax(-1))     # (B, H, T, T)
        mix = self.mix(weights @ v)                                          # (B, H, T, D)
        return self.output(mix.transpose(1, 2).flatten(-2))                  # (B, T, C)
