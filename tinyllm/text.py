"""Characters to ids and back, and text to train on (chapter 3)."""
import os, numpy as np, torch
from pydoc_data.topics import topics

def encode(text):
    """Text -> ids (T,), int64: the bytes of its UTF-8. Raises ValueError for what is no text."""
    return torch.tensor(list(bytes(text, "utf-8", "surrogateescape")), dtype=torch.int64)

def decode(ids):
    """Ids (T,) -> text. Bytes that form no character become U+FFFD, the replacement character."""
    return bytes(torch.as_tensor(ids).tolist()).decode("utf-8", "replace")

def symbol(i):
    """One id as a label that can be seen: 101 -> e, 32 -> ␣, 10 -> \\n, 228 -> \\xe4."""
    return repr(bytes([i]))[2:-1].replace(" ", "␣")

def load_ids(source=None):
    """A text as ids (N,), uint8. source: None for Python's manual, "shakespeare" (downloaded once),
    "-" for standard input, or a file of any size. Raises OSError if it cannot be read."""
    if source is None:
        return encode("\n\n".join(topics.values())).byte()
    source = download_shakespeare() if source == "shakespeare" else source
    with open(0 if source == "-" else source, "rb", closefd=source != "-") as file:
        size = os.fstat(file.fileno()).st_size  # 0 for a pipe
        data = np.memmap(file, np.uint8, "c") if size else np.frombuffer(bytearray(file.read()), np.uint8)
    return torch.from_numpy(data)

def load_text(source=None):
    """The same text as a str."""
    return decode(load_ids(source))

def split(ids):
    """The first 90 % of a text to train on, the last 10 % to validate on."""
    return ids[: len(ids) * 9 // 10], ids[len(ids) * 9 // 10 :]

def download_shakespeare():
    """Path of tiny-shakespeare in torch's cache, downloaded and checked by its hash if need be."""
    url = "https://raw.githubusercontent.com/karpathy/char-rnn/master/data/tinyshakespeare/input.txt"
    path = os.path.join(torch.hub.get_dir(), "tinyshakespeare.txt")
    os.makedirs(os.path.dirname(path), exist_ok=True)
    try:
        os.path.exists(path) or torch.hub.download_url_to_file(url, path, "86c4e6aa9db7c042ec79f339dcb96d42")
    except (OSError, RuntimeError) as error:  # offline, or not the file it should be
        raise OSError(f"cannot download {url} ({error}); give a file instead") from None
    return path
