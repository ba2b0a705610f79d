"""One block of the Transformer (chapter 7)."""
import torch.nn as nn, torch.nn.functional as F
from tinyllm.attention import CausalSelfAttention
from tinyllm.bricks import HookPoint, LayerNorm, Linear

class FeedForward(nn.Module):
    """Widen, bend, narrow, at each position alone: (B, T, C) -> (B, T, C)."""
    def __init__(self, config):
        super().__init__()
        self.up, self.hidden = Linear(config.d_model, config.d_ff, config.bias), HookPoint("B, T, d_ff")
        self.down = Linear(config.d_ff, config.d_model, config.bias)
    def forward(self, x):
        return self.down(self.hidden(F.gelu(self.up(x))))

class Block(nn.Module):
    """Attention, then the FFN, each added to the residual stream: (B, T, C) -> (B, T, C)."""
    def __init__(self, config):
        super().__init__()
        self.norm_first = config.norm_first
        self.attention, self.norm1 = CausalSelfAttention(config), LayerNorm(config.d_model)
        self.ffn, self.norm2 = FeedForward(config), LayerNorm(config.d_model)
        self.middle, self.residual = HookPoint("B, T, C"), HookPoint("B, T, C")
    def forward(self, x):
        if self.norm_first:
            x = self.middle(x + self.attention(self.norm1(x)))
            return self.residual(x + self.ffn(self.norm2(x)))
        x = self.middle(self.norm1(x + self.attention(x)))
        return self.residual(self.norm2(x + self.ffn(x)))
