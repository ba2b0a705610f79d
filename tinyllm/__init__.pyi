"""The public names, for lazy_loader and for type checkers."""
from .generation import distribution, generate, next_logits
from .microscope import intervene, ledger, next_symbols, trace
from .model import Config, TinyLLM, causal_mask
from .text import decode, encode, load_text, split, symbol
from .training import evaluate, train

__version__: str
