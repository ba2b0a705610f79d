"""Characters to ids and back, and text to train on (chapter 3)."""
import sys
from pathlib import Path
from pydoc_data.topics import topics
import torch

def encode(text: str) -> torch.Tensor:
    """Text -> ids (T,), int64: the bytes of its UTF-8. Raises ValueError for surrogates."""
    return torch.tensor(list(text.encode("utf-8", "surrogateescape")), dtype=torch.int64)

def decode(ids) -> str:
    """Ids (T,) -> text. What forms no character becomes U+FFFD, the replacement character."""
    return bytes(torch.as_tensor(ids).tolist()).decode("utf-8", "replace")

def symbol(i: int) -> str:
    """One id as a label that can be seen: 101 -> e, 32 -> ␣, 10 -> \\n, 228 -> \\xe4."""
    return repr(bytes([i]))[2:-1].replace(" ", "␣") if i < 256 else f"#{i}"

def load_text(source: str | None = None) -> str:
    """The text of a file, of standard input ("-"), or, without a source, Python's manual."""
    if source is None:
        return "\n\n".join(topics.values())
    raw = sys.stdin.buffer.read() if source == "-" else Path(source).read_bytes()
    return raw.decode("utf-8", "surrogateescape")    # encode() gives exactly these bytes back

def split(ids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The first 90 % of a text to train on, the last 10 % to validate on."""
    return ids[: len(ids) * 9 // 10], ids[len(ids) * 9 // 10 :]
