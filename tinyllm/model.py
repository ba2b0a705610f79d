"""The whole model, and its file (chapter 8)."""
import json, os
from pathlib import Path
import safetensors.torch
import torch
from tinyllm.block import Block
from tinyllm.bricks import Embedding, LayerNorm, Linear, Positions
from tinyllm.config import Config

class TinyLLM(torch.nn.Module):
    """A decoder-only Transformer: ids int64 (B, T), T <= context -> logits (B, T, vocab_size)."""
    def __init__(self, config=None):
        super().__init__()
        self.config = c = config or Config()
        self.embedding = Embedding(c.vocab_size, c.d_model)
        self.positions = Positions(c.context, c.d_model)
        self.blocks = torch.nn.ModuleList(Block(c) for _ in range(c.n_layers))
        self.norm = LayerNorm(c.d_model) if c.norm_first else torch.nn.Identity()
        self.head = Linear(c.d_model, c.vocab_size, c.bias)
    def forward(self, ids):
        T, V = self.config.context, self.config.vocab_size
        if ids.dtype != torch.int64 or ids.dim() != 2 or ids.shape[1] > T:
            raise ValueError(f"ids are {ids.dtype} {tuple(ids.shape)}, not int64 (B, T) with T <= {T}")
        if ids.numel() and not 0 <= ids.min() <= ids.max() < V:
            raise ValueError(f"ids must be in 0..{V - 1}, not {ids.min()}..{ids.max()}")
        x = self.positions(self.embedding(ids))  # (B, T, C)
        for block in self.blocks:
            x = block(x)                         # (B, T, C)
        return self.head(self.norm(x))           # (B, T, vocab_size)
    def save(self, path):
        """Write weights and config to a safetensors file; whatever happens, never half a file."""
        part, metadata = Path(f"{path}.{os.getpid()}.part"), {"tinyllm": json.dumps(vars(self.config))}
        try:
            part.write_bytes(safetensors.torch.save(self.state_dict(), metadata))
            part.replace(path)
        finally:
            part.unlink(missing_ok=True)
    @classmethod
    def load(cls, path):
        """Read what save() wrote. Raises FileNotFoundError, or ValueError for any other file."""
        open(path, "rb").close()  # if it cannot be read, this error names it
        try:
            with safetensors.safe_open(path, "pt") as file:
                model = cls(Config(**json.loads(file.metadata()["tinyllm"])))
                model.load_state_dict({name: file.get_tensor(name) for name in file.keys()})
        except (safetensors.SafetensorError, RuntimeError, TypeError, KeyError, ValueError) as error:
            raise ValueError(f"{path} is not a TinyLLM checkpoint: {error!r}") from None
        return model
    @classmethod
    def pretrained(cls):
        """The model that comes with the package, trained on Python's reference manual."""
        return cls.load(Path(__file__).with_name("pretrained.safetensors"))
