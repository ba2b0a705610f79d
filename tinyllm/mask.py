"""The causal mask (chapter 4)."""
import torch

def causal_mask(length):
    """(length, length) of 0 and -inf, to be added to the scores: row i may look at columns 0..i."""
    return torch.full((length, length), float("-inf")).triu(diagonal=1)
