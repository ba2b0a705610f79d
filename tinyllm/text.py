"""Characters to ids and back, and text to train on (chapter 3)."""
import sys
from pathlib import Path
from pydoc_data.topics import topics
import chardet
import torch

def encode(text: str) -> torch.Tensor:
    """Text -> ids (T,), int64: the bytes of its UTF-8. Raises ValueError for surrogates."""
    return torch.tensor(list(text.encode("utf-8", "surrogateescape")), dtype=torch.int64)

def decode(ids: torch.Tensor | list[int]) -> str:
    """Ids (T,) -> text. What forms no character becomes U+FFFD, the replacement character."""
    return bytes(torch.as_tensor(ids).tolist()).decode("utf-8", "replace")

def symbol(i: int) -> str:
    """One id as a label that can be seen: 101 -> e, 32 -> ␣, 10 -> \\n, 228 -> \\xe4."""
    return repr(bytes([i]))[2:-1].replace(" ", "␣") if i < 256 else f"#{i}"

def load_text(source: str | Path | None = None, encoding: str | None = None) -> str:
    """The text of a file, of standard input ("-"), or, without a source, Python's manual.
    Raises ValueError for bytes that are not UTF-8, unless an encoding is given."""
    if source is None:
        return "\n\n".join(topics.values())
    if "://" in str(source):
        raise ValueError(f"{source} is no file: curl -L {source} | tinyllm train --data -")
    raw = sys.stdin.buffer.read() if source == "-" else Path(source).read_bytes()
    text = raw.decode(encoding or "utf-8", "surrogateescape")   # encode() gives the bytes back
    if encoding is None and (b"\0" in raw or text.encode(errors="ignore") != raw):
        found = chardet.detect(raw)
        kind = found["encoding"] or found["mime_type"]
        raise ValueError(f"{source} is not UTF-8, it looks like {kind}: name its encoding")
    return text

def split(ids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The first 90 % of a text to train on, the last 10 % to validate on."""
    return ids[: len(ids) * 9 // 10], ids[len(ids) * 9 // 10 :]
