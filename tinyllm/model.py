"""The whole model, and its file (chapter 8)."""
import hashlib, json, os, pathlib, safetensors.torch, torch
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
        if ids.dtype != torch.int64 or ids.dim() != 2 or ids.shape[1] > self.config.context:
            raise ValueError(f"ids: {ids.dtype} {tuple(ids.shape)}, not int64 (B, T <= {self.config.context})")
        if ids.numel() and not 0 <= ids.min() <= ids.max() < self.config.vocab_size:
            raise ValueError(f"ids must be in 0..{self.config.vocab_size - 1}, not {ids.min()}..{ids.max()}")
        x = self.positions(self.embedding(ids))  # (B, T, C)
        for block in self.blocks:
            x = block(x)                         # (B, T, C)
        return self.head(self.norm(x))           # (B, T, vocab_size)
    def save(self, path):
        """Write weights and config to a safetensors file; whatever happens, never half a file."""
        path = os.path.realpath(path)  # a link stays a link
        part = pathlib.Path(f"{path}.{os.getpid()}.part")
        weights = {name: p.contiguous().clone() for name, p in self.state_dict().items()}
        raw = safetensors.torch.save(weights, {"tinyllm": json.dumps(vars(self.config) | {"sha256": "0" * 64})})
        try:
            part.write_bytes(raw.replace(b"0" * 64, hashlib.sha256(raw).hexdigest().encode(), 1))
            part.replace(path)
        finally:
            part.unlink(missing_ok=True)
    @classmethod
    def load(cls, path=None):
        """Read what save() wrote, or else the package's own model. Raises OSError or ValueError."""
        path = pathlib.Path(__file__).with_name("pretrained.safetensors") if path is None else pathlib.Path(path)
        raw = path.read_bytes()
        try:
            header = json.loads(raw[8 : 8 + int.from_bytes(raw[:8], "little")])
            sizes, weights = json.loads(header["__metadata__"]["tinyllm"]), safetensors.torch.load(raw)
            digest, config = sizes.pop("sha256"), Config(**sizes)
            now = hashlib.sha256(raw.replace(digest.encode(), b"0" * 64, 1)).hexdigest()
            if now != digest or config.n_layers * max(config.context, 1024)**2 > 2**26:
                raise ValueError("its bytes have changed, or it wants more than 256 MB for masks")
            with torch.device("meta"):  # takes no memory, whatever the sizes: do the weights fit them?
                cls(config).load_state_dict(weights, assign=True)
            model = cls(config)
            model.load_state_dict(weights)
        except Exception as error:  # a file can hold anything
            raise ValueError(f"{path} is no TinyLLM checkpoint of this version: {repr(error)[:150]}") from None
        return model
    pretrained = load
