"""What the chapters give, line by line.

Entangled does the tangling, always in a temporary copy, so that whatever it does or leaves undone, the
book is only touched by one atomic step per file. It tangles with its `# ~/~ begin … end` markers: without
them the lines are the package; with them every line is known to come from one line of one chapter, and an
edit in the package can be carried back to exactly that line.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tools.chapters.book import PACKAGE, check_book, read_book
from tools.chapters.read import Block, Fault, syntax_error

CONFIG = "entangled.toml"
TANGLE = ["tangle", "--annotate", "standard", "--force"]
BEGIN = re.compile(r"(\s*)# ~/~ begin <<([^#<>]+)#([^#<>]+)>>\[\w+\]")
END = re.compile(r"\s*# ~/~ end\s*")


@dataclass
class Line:
    """One line of the package and where it was written."""
    text: str
    block: Block
    index: int          # line index in the chapter
    indent: str         # the indentation of the reference it came through

    @property
    def where(self):
        return f"{self.block.chapter.name}:{self.index + 1}"


def weave_lines(root, chapters):
    """{file: [Line, …]}: what the chapters give, as Entangled tangles it."""
    pieces, assemblies = check_book(chapters)
    files = run_entangled(root, chapters)
    if files.keys() != assemblies.keys():
        odd = ", ".join(sorted(files.keys() ^ assemblies.keys()))
        raise Fault(f"Entangled did not write what the chapters ask for ({odd}); "
                    f"was {CONFIG} changed?")
    result = {name: follow_markers(text, pieces | assemblies) for name, text in files.items()}
    for name, lines in result.items():
        if error := syntax_error([line.text for line in lines]):
            where = lines[error.lineno - 1].where if lines else name
            raise Fault(f"{where}: {name} has a syntax error here: {error.msg}")
    return result


def run_entangled(root, chapters):
    """Tangle copies of the chapters, with markers. Entangled can end with status 0
    without having done its work: what it wrote is what counts."""
    with tempfile.TemporaryDirectory(prefix="tangle-") as folder:
        folder = Path(folder)
        shutil.copy(root / CONFIG, folder)
        (folder / "docs").mkdir()
        for chapter in chapters:
            # markers are comments, so Entangled has to be told the language its own way
            lines = [re.sub(r"^```python (#[\w-]+)\s*$", r"``` {.python \1}", line) for line in chapter.lines]
            (folder / "docs" / chapter.path.name).write_bytes("\n".join(lines).encode())
        status, said = call_entangled(folder)
        if "No module named" in said:
            raise Fault(f"Entangled is not installed for {sys.executable}; run this through make.")
        if status:
            raise Fault(f"Entangled failed:\n{said}")
        return {path.relative_to(folder).as_posix(): path.read_bytes().decode()
                for path in sorted((folder / PACKAGE).glob("**/*")) if path.is_file()}


def call_entangled(folder):
    """Tangle in this folder; returns the exit status and what was said. (Tests put a faster one in its place.)"""
    command = [sys.executable, "-m", "entangled.main", *TANGLE]
    done = subprocess.run(command, cwd=folder, env=os.environ | {"PYTHONUTF8": "1"}, text=True, encoding="utf-8",
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    return done.returncode, done.stdout


def follow_markers(text, blocks):
    """Take the markers out of a tangled file and note for each line where it came from."""
    lines, stack = [], []               # stack of [block, next line index, indent]
    for out in text.rstrip("\n").split("\n"):
        if match := BEGIN.fullmatch(out):
            if stack:
                stack[-1][1] += 1       # the line <<reference>> itself
            block = blocks[match[3]]
            stack.append([block, block.start, match[1]])
        elif END.fullmatch(out):
            stack.pop()
        else:
            block, index, indent = stack[-1]
            source = block.chapter.lines[index]
            # versions differ in whether they indent a blank line: the chapter's counts
            line = Line(indent + source if source.strip() else source, block, index, indent)
            if line.text != out and out.strip():
                raise Fault(f"{line.where}: Entangled made {out!r} of the line {source!r}; "
                            "is there an unusual character in it?")
            lines.append(line)
            stack[-1][1] += 1
    while lines and not lines[-1].text:     # every file ends in exactly one newline
        lines.pop()
    return lines


def join(lines):
    return "".join(f"{line.text}\n" for line in lines)


def tangle_beginning(root, told, target):
    """Tangle the chapters with these file names, a beginning of the book, into the folder `target`.

    For the claim that every beginning of the book is a package that imports. A module is put together as in
    the whole book, whichever chapter assembles it, and holds those of its pieces which have been told so far.
    """
    for name, lines in weave_lines(root, read_book(root)).items():
        assembled = any(line.block.chapter.path.name in told for line in lines if is_assembly(line))
        kept = leave_out(lines, told)
        if not assembled and all(is_assembly(line) for line in kept):
            continue            # nothing of this module has been told yet
        if error := syntax_error([line.text for line in kept]):
            where = kept[error.lineno - 1].where if kept else name
            raise Fault(f"{where}: without the pieces that come in later chapters, {name} has a syntax error "
                        f"here: {error.msg}")
        path = Path(target) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(join(kept).encode())


def leave_out(lines, told):
    """The lines of a module without the pieces of later chapters, and without what is indented under such a
    piece: a method can do without its class as little as an `else` without its `if`."""
    kept = []
    gone = None                 # how far the piece that is being left out is indented
    for line in lines:
        if is_assembly(line) and not line.text.strip():
            kept.append(line)
            continue
        if is_assembly(line):
            later = False
            depth = len(line.text) - len(line.text.lstrip())
        else:
            later = line.block.chapter.path.name not in told
            depth = len(line.indent)
        if gone is not None and depth <= gone:
            gone = None
        if later and gone is None:
            gone = depth
        if gone is None:
            kept.append(line)
        while gone is not None and kept and is_assembly(kept[-1]) and not kept[-1].text.strip():
            kept.pop()          # blank lines above what is left out
    return kept


def is_assembly(line):
    return line.block in line.block.chapter.assemblies
