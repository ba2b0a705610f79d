"""What a chapter read, and whether it still says the same.

A record is {"kind path": digest}, as watch/sitecustomize.py noted it while the chapter ran: a file with the
digest of its bytes, a folder with the digest of its names. When in doubt, the record is that the chapter
read everything that the book has for chapters to read.
"""

import functools
import hashlib
import json
from pathlib import Path

from mkdocs.exceptions import BuildError

ROOT = Path(__file__).resolve().parents[2]
ABSENT = "absent"


class Changed(BuildError):
    """A file was written while a chapter that reads it ran."""


def collect(notes: Path, source: Path) -> dict[str, str]:
    """The record of a run, out of what its processes have noted."""
    record, begun = {}, False
    for file in sorted(notes.iterdir()):
        for line in file.read_text("utf-8").splitlines():
            kind, name, date, size = json.loads(line)
            name = Path(name).as_posix()
            begun = begun or kind == "begun"
            if kind == "file":
                if state(ROOT / name) != (date, size):
                    raise Changed(f"{source.name}: {name} changed while this chapter ran. Build again.")
                record[f"file {name}"] = digest(f"file {name}")
            elif kind == "names":
                record[f"names {name}"] = digest(f"names {name}")
            elif kind == "doubt":
                record["all"] = digest("all")
    if not begun:                   # nobody watched
        record["all"] = digest("all")
    return dict(sorted(record.items()))


def unchanged(record: dict[str, str]) -> bool:
    return not changed(record)


def changed(record: dict[str, str]) -> list[str]:
    """What of a record is not as it was, in words."""
    words = []
    for key, value in record.items():
        if digest(key) == value:
            continue
        kind, _, name = key.partition(" ")
        if kind == "file":
            words.append(f"{name} changed")
        elif kind == "names":
            words.append(f"other files in {name}")
        else:
            words.append("something changed, and what the chapter reads is not known")
    return words


def digest(key: str) -> str:
    """The digest of what a record's key names, as it is now."""
    kind, _, name = key.partition(" ")
    if kind == "file":
        return file_digest(ROOT / name)
    if kind == "names":
        folder = ROOT / name
        if not folder.is_dir():
            return ABSENT
        names = (path.name for path in folder.iterdir() if path.name != "__pycache__")
        return short("\n".join(sorted(names)))
    if kind == "all":
        return short("\n".join(f"{path.relative_to(ROOT)} {file_digest(path)}" for path in everything()))
    raise ValueError(key)


def everything() -> list[Path]:
    """All that chapters have been made to read: the package, its weights, the results of measurements."""
    package = (p for p in (ROOT / "tinyllm").rglob("*") if p.suffix != ".pyc" and p.is_file())
    results = (p for p in (ROOT / "docs" / "assets").rglob("*") if p.suffix in (".json", ".safetensors"))
    return sorted([*package, *results, ROOT / "tools" / "site" / "matplotlibrc"])


def state(path: Path) -> tuple[int, int] | tuple[None, None]:
    try:
        found = path.stat()
    except OSError:
        return None, None
    return found.st_mtime_ns, found.st_size


def file_digest(path: Path) -> str:
    date, size = state(path)
    return ABSENT if date is None else _file_digest(path, date, size)


@functools.lru_cache(maxsize=10_000)
def _file_digest(path: Path, date: int, size: int) -> str:
    try:
        return short(path.read_bytes())
    except OSError:                 # a folder, or gone a moment ago
        return ABSENT


def short(text: str | bytes) -> str:
    return hashlib.sha256(text.encode() if isinstance(text, str) else text).hexdigest()[:32]
