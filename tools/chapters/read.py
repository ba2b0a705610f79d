"""Read one chapter, and stop at the first thing in it that would go wrong later."""

import re
import warnings
from dataclasses import dataclass, field
from pathlib import Path

FENCE = re.compile(r"(`{3,}|~{3,})(.*)")
PIECE = re.compile(r"python #([A-Za-z][\w-]*)\s*")
ASSEMBLY = re.compile(r"\s*\{\.python file=\"?([\w./-]+)\"?\s*\}\s*")
REFERENCE = re.compile(r"(\s*)<<(.*)>>\s*")
MARKER = re.compile(r"~/~ (begin|end)")
ODD = re.compile("[\0\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")
KERNEL = """\
    ---
    title: …
    jupyter:
      kernelspec:
        display_name: Python 3
        language: python
        name: python3
    ---"""


class Fault(Exception):
    """Something the author has to put right: one message, no traceback."""


@dataclass
class Block:
    """One fence whose code goes into the package: a piece or an assembly."""
    chapter: "Chapter"
    name: str           # the piece's name, or the assembly's file
    start: int          # index of its first line in the chapter
    end: int            # one past its last line

    @property
    def lines(self):
        return self.chapter.lines[self.start:self.end]

    def at(self, offset=-1):
        """"docs/x.md:12", of the fence or of the line `offset` inside it."""
        return f"{self.chapter.name}:{self.start + offset + 1}"


@dataclass
class Chapter:
    path: Path
    name: str                                   # docs/06-attention.md
    lines: list[str] = field(default_factory=list)  # without line ends
    newline: str = "\n"
    pieces: list[Block] = field(default_factory=list)
    assemblies: list[Block] = field(default_factory=list)

    def text(self):
        return self.newline.join(self.lines)


def read_text(path, name):
    try:
        return path.read_bytes().decode("utf-8")
    except UnicodeDecodeError as error:
        line = path.read_bytes()[:error.start].count(b"\n") + 1
        raise Fault(f"{name}:{line}: not UTF-8; save the file as UTF-8.") from None


def read_chapter(path):
    """Read one chapter and stop at the first thing that would go wrong later."""
    path = Path(path)
    chapter = Chapter(path, f"{path.parent.name}/{path.name}")
    text = read_text(path, chapter.name)
    if text.startswith("\ufeff"):
        raise Fault(f"{chapter.name}:1: starts with a byte order mark; save the file without it.")
    if "\r\n" in text:
        chapter.newline = "\r\n"
        if "\n" in text.replace("\r\n", ""):
            raise Fault(f"{chapter.name}: has both Windows and Unix line ends; save it with one kind.")
    chapter.lines = lines = text.split(chapter.newline)
    if text and lines[-1]:
        raise Fault(f"{chapter.name}:{len(lines)}: the last line has no line end; add one.")

    executes = find_blocks(chapter)
    if executes or re.match(r"\d\d-", path.name):
        check_front_matter(chapter)
    for block in chapter.pieces + chapter.assemblies:
        check_block(block)
    return chapter


def find_blocks(chapter):
    """Collect the chapter's blocks; True if any of its code is executed."""
    opened = None       # (line index, fence, info string) of the fence we are in
    executes = False
    for i, line in enumerate(chapter.lines):
        match = FENCE.match(line)
        if not match:
            continue
        here, fence, info = f"{chapter.name}:{i + 1}", match[1], match[2].strip()
        if opened is None:
            opened = i, fence, info
            language = info.split()[0] if info else ""
            if ASSEMBLY.fullmatch(info) or PIECE.fullmatch(info) and fence == "```":
                executes = True
            elif language == "python" and not info.startswith("python #"):
                executes = True
            elif language not in ("text", "console"):
                raise Fault(f"{here}: a fence {fence}{info}; a chapter has ```python, ```python #piece, "
                            "``` {.python file=tinyllm/…}, ```text and ```console. "
                            "(Other languages may be executed as shell or magic cells.)")
            continue
        start, outer, outer_info = opened
        if fence[0] == outer[0] and len(fence) >= len(outer) and not info:
            opened = None
            if match := PIECE.fullmatch(outer_info):
                chapter.pieces.append(Block(chapter, match[1], start + 1, i))
            elif match := ASSEMBLY.fullmatch(outer_info):
                chapter.assemblies.append(Block(chapter, match[1], start + 1, i))
        elif fence.startswith("```"):
            raise Fault(f"{here}: a fence inside the fence of line {start + 1}; close that one first. "
                        "(To show a fence as text, indent it by a space or more.)")
    if opened:
        raise Fault(f"{chapter.name}:{opened[0] + 1}: this fence is never closed; end it with a line {opened[1]}")
    return executes


def check_front_matter(chapter):
    """Without a kernelspec nested under `jupyter:` the page would silently not execute."""
    lines = chapter.lines
    if lines[0] != "---" or "---" not in lines[1:]:
        raise Fault(f"{chapter.name}:1: no front matter, so nothing in this chapter would be executed; "
                    f"begin the file with\n{KERNEL}")
    head = lines[1:lines.index("---", 1)]
    for i, line in enumerate(head, start=2):
        if line.startswith("kernelspec:"):
            raise Fault(f"{chapter.name}:{i}: kernelspec must stand under jupyter:, or nothing in this "
                        f"chapter is executed; the front matter is\n{KERNEL}")
    wanted = ["jupyter:", "  kernelspec:", "    display_name: Python 3", "    language: python",
              "    name: python3"]
    found = [line.rstrip() for line in head]
    for want in wanted:
        if want not in found:
            raise Fault(f"{chapter.name}:1: the front matter lacks {want.strip()!r}, so nothing in this "
                        f"chapter would be executed; it is\n{KERNEL}")


def check_block(block):
    piece = block in block.chapter.pieces
    for i, line in enumerate(block.lines):
        if piece and REFERENCE.fullmatch(line):
            raise Fault(f"{block.at(i)}: {line.strip()} inside the piece {block.name!r}, which is executed as "
                        "it stands; references belong in the ``` {.python file=…} block.")
        if MARKER.search(line):
            raise Fault(f"{block.at(i)}: this line looks like one of Entangled's own markers; word it differently.")
        if odd := ODD.search(line):
            raise Fault(f"{block.at(i)}: the control character {odd[0]!a} breaks lines for some programs and not "
                        "for others; write it as an escape.")
    if piece and (error := syntax_error(block.lines)):
        raise Fault(f"{block.at(error.lineno - 1)}: syntax error in the piece {block.name!r}: {error.msg}")


def syntax_error(lines):
    """The SyntaxError Python finds in these lines, on a line that exists, or None."""
    try:
        with warnings.catch_warnings(action="ignore"):
            compile("\n".join(lines), "chapter", "exec", dont_inherit=True)
    except SyntaxError as error:
        error.lineno = min(max(error.lineno or 1, 1), max(len(lines), 1))
        return error
    except ValueError as error:         # a NUL byte, on Python 3.11
        return SyntaxError(str(error), (None, 1, None, None))
