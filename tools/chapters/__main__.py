"""The commands: python -m tools.chapters tangle | check | stitch | prefix K DIR"""

import argparse
import sys
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from tools.chapters.book import chapter_paths, read_book
from tools.chapters.read import Fault
from tools.chapters.record import compare, complain_about_edits, do_check
from tools.chapters.stitch import do_stitch
from tools.chapters.tangle import tangle_beginning
from tools.chapters.write import write

ROOT = Path(__file__).resolve().parents[2]
COMMANDS = {
    "tangle": "chapters to package",
    "check": "compare the two, change nothing",
    "stitch": "edits in the package back to the chapters",
    "prefix": "tangle the first K chapters into DIR",
}


def do_tangle(root):
    sides = compare(root, read_book(root))
    complain_about_edits(sides)
    changes = {}
    for side in sides:
        path = root / side.name
        if side.text is None:
            print(f"{side.name}: removed, no chapter makes it any more")
            changes[path] = None
        elif not path.exists() or path.read_bytes() != side.text.encode():
            print(f"{side.name}: tangled")
            changes[path] = side.text
    write(root, changes, sides)


def do_prefix(root, k, target):
    numbered = [path.name for path in chapter_paths(root / "docs") if path.name[:2].isdecimal()]
    tangle_beginning(root, numbered[:k], target)


@contextmanager
def one_at_a_time(root):
    """Let a tangling or stitching that runs already come to its end: both would write the same files."""
    folder = root / ".cache"
    folder.mkdir(exist_ok=True)
    lock = FileLock(folder / "chapters.lock")
    try:
        lock.acquire(blocking=False)
    except Timeout:
        print("waiting for another tangling or stitching of this book to end …", file=sys.stderr, flush=True)
        lock.acquire()
    try:
        yield
    finally:
        lock.release()


def main(arguments=None, root=ROOT):
    parser = argparse.ArgumentParser(prog="python -m tools.chapters", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    parsers = {name: commands.add_parser(name, help=text) for name, text in COMMANDS.items()}
    parsers["prefix"].add_argument("K", type=int)
    parsers["prefix"].add_argument("DIR", type=Path)
    options = parser.parse_args(arguments)
    try:
        with one_at_a_time(root):
            if options.command == "prefix":
                do_prefix(root, options.K, options.DIR)
            else:
                {"tangle": do_tangle, "check": do_check, "stitch": do_stitch}[options.command](root)
    except Fault as fault:
        print(fault, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted; no file is half written", file=sys.stderr)
        return 130
    except OSError as error:
        print(f"{error.filename or 'tools.chapters'}: {error.strerror or error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
