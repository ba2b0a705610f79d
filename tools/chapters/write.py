"""Write all files of one change, or none."""

import os
import shutil
import signal
import tempfile
from contextlib import contextmanager
from pathlib import Path

from tools.chapters.record import RECORD, digest


@contextmanager
def uninterrupted():
    """Hold Ctrl-C and a polite kill back for the few renames that belong together."""
    held = []
    old = {number: signal.signal(number, lambda n, _: held.append(n))
           for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in old.items():
            signal.signal(number, handler)
        if held:
            signal.raise_signal(held[0])


def write(root, changes, sides):
    """Write {path: text or None} and the record: all prepared first, then renamed into place."""
    record = "".join(f"{digest(side.text)}  {side.name}\n" for side in sides if side.text is not None)
    changes = dict(changes) | {root / RECORD: record}       # last: until then the old state is recorded
    ready = []
    try:
        for path, text in changes.items():
            path = Path(os.path.realpath(path))
            if text is None:
                ready.append((None, path))
            elif not path.exists() or path.read_bytes() != text.encode():
                path.parent.mkdir(parents=True, exist_ok=True)
                number, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".new", dir=path.parent)
                ready.append((name, path))
                with open(number, "wb") as file:
                    file.write(text.encode())
                if path.exists():
                    shutil.copymode(path, name)
                else:
                    os.chmod(name, 0o666 & ~umask())
        with uninterrupted():
            while ready:
                name, path = ready.pop(0)
                path.unlink() if name is None else os.replace(name, path)
    finally:
        for name, _ in ready:
            if name is not None:
                Path(name).unlink(missing_ok=True)


def umask():
    mask = os.umask(0)
    os.umask(mask)
    return mask
