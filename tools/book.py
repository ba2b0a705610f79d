"""Chapters to package and back.

    python tools/book.py tangle            docs/*.md  ->  tinyllm/*.py
    python tools/book.py check             do the two agree? (changes nothing)
    python tools/book.py stitch            edits in tinyllm/*.py  ->  docs/*.md
    python tools/book.py prefix K DIR      tangle chapters 1 … K alone into DIR

Entangled does the tangling, always in a temporary copy, so that whatever it
does or leaves undone, the book is only touched by one atomic step per file.
It tangles with its `# ~/~ begin … end` markers: without them the lines are
the package; with them every line is known to come from one line of one
chapter, and an edit in the package can be carried back to exactly that line.

Which side was edited? `tangled.sha256` is committed and holds the digest of
every file as it was last tangled. A package file that still has its digest
was not touched by hand and may be overwritten; one that has not, holds an
edit and is never overwritten. Being part of the repository, the record is
right on a fresh clone, after a pull, on another branch and without Git.
"""

import argparse
import difflib
import hashlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import warnings
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGE, RECORD, CONFIG = "tinyllm", "tangled.sha256", "entangled.toml"
TANGLE = ["tangle", "--annotate", "standard", "--force"]

FENCE = re.compile(r"(`{3,}|~{3,})(.*)")
PIECE = re.compile(r"python #([A-Za-z][\w-]*)\s*")
ASSEMBLY = re.compile(r"\s*\{\.python file=\"?([\w./-]+)\"?\s*\}\s*")
REFERENCE = re.compile(r"(\s*)<<(.*)>>\s*")
BEGIN = re.compile(r"(\s*)# ~/~ begin <<([^#<>]+)#([^#<>]+)>>\[\w+\]")
END = re.compile(r"\s*# ~/~ end\s*")
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


# ------------------------------------------------------------------ chapters

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


def check_book(chapters):
    """What can only be seen across chapters. Returns pieces and assemblies by name."""
    pieces, assemblies, used = {}, {}, set()
    for chapter in chapters:
        for piece in chapter.pieces:
            if first := pieces.get(piece.name):
                raise Fault(f"{piece.at()}: the piece {piece.name!r} exists already at {first.at()}; "
                            "rename one of them.")
            pieces[piece.name] = piece
        for block in chapter.assemblies:
            if first := assemblies.get(block.name):
                raise Fault(f"{block.at()}: {block.name} is assembled already at {first.at()}; "
                            "keep one block per file.")
            if not re.fullmatch(PACKAGE + r"/\w+\.py", block.name):
                raise Fault(f"{block.at()}: {block.name} is outside the package; "
                            f"write file={PACKAGE}/NAME.py")
            assemblies[block.name] = block
    for block in assemblies.values():
        for i, line in enumerate(block.lines):
            match = REFERENCE.fullmatch(line)
            if match and match[2] not in pieces:
                close = difflib.get_close_matches(match[2], pieces, 1)
                hint = f" Did you mean <<{close[0]}>>?" if close else f" Name a fence ```python #{match[2]}"
                raise Fault(f"{block.at(i)}: no piece is called {match[2]!r}.{hint}")
            used.add(match[2] if match else None)
    for piece in pieces.values():
        if piece.name not in used:
            raise Fault(f"{piece.at()}: the piece {piece.name!r} is in no file; add <<{piece.name}>> to a "
                        "``` {.python file=…} block, or drop the name if it is a demonstration.")
    return pieces, assemblies


def read_book(root):
    paths = sorted((root / "docs").glob("*.md"))
    if not paths:
        raise Fault(f"{root / 'docs'}: no chapters here.")
    return [read_chapter(path) for path in paths]


# -------------------------------------------------------------------- tangle

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


def weave_lines(chapters):
    """{file: [Line, …]}: what the chapters give, as Entangled tangles it."""
    pieces, assemblies = check_book(chapters)
    files = run_entangled(chapters)
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


def run_entangled(chapters):
    """Tangle copies of the chapters, with markers. Entangled can end with status 0
    without having done its work: what it wrote is what counts."""
    with tempfile.TemporaryDirectory(prefix="tangle-") as folder:
        folder = Path(folder)
        shutil.copy(ROOT / CONFIG, folder)
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
    """Tangle in this folder; returns the exit status and what was said. (The tests put a faster one in its place.)"""
    done = subprocess.run([sys.executable, "-m", "entangled.main", *TANGLE], cwd=folder, text=True, encoding="utf-8",
                          env=os.environ | {"PYTHONUTF8": "1"}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
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


def tangle(chapters, target):
    """Tangle a beginning of the book into the folder `target` (as target/tinyllm/*.py): these chapters alone.

    For the claim that every beginning of the book is a package that imports. A module is put together as in
    the whole book, whichever chapter assembles it, and holds those of its pieces which have been told so far.
    """
    told = {Path(path).name for path in chapters}
    for name, lines in weave_lines(read_book(ROOT)).items():
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


# ---------------------------------------------------------------- both sides

def digest(text):
    return hashlib.sha256(text.encode()).hexdigest()


def normal(text):
    """The text with Unix line ends and exactly one newline at its end."""
    text = text.replace("\r\n", "\n").rstrip("\n")
    return text + "\n" if text else ""


def read_record(root):
    """{file: digests}: more than one only where a merge left both sides' lines."""
    record = {}
    if (root / RECORD).exists():
        for match in re.finditer(r"^([0-9a-f]{64})  (\S+)$", (root / RECORD).read_text("utf-8"), re.M):
            record.setdefault(match[2], set()).add(match[1])
    return record


@dataclass
class Side:
    """One file of the package, as it is and as the chapters give it."""
    name: str
    code: str | None        # on disk, normal form; None: not there
    given: list[Line] | None    # from the chapters; None: no chapter makes this file
    recorded: set[str]

    @property
    def text(self):
        return None if self.given is None else join(self.given)

    @property
    def same(self):
        return self.code == self.text

    @property
    def code_edited(self):
        return self.code is not None and digest(self.code) not in self.recorded

    @property
    def chapters_edited(self):
        return self.text is None or digest(self.text) not in self.recorded


def compare(root, chapters):
    given = weave_lines(chapters)
    record = read_record(root)
    on_disk = {f"{PACKAGE}/{path.name}": path for path in sorted((root / PACKAGE).glob("*.py"))}
    sides = []
    for name in sorted(given.keys() | on_disk.keys()):
        code = normal(read_text(on_disk[name], name)) if name in on_disk else None
        sides.append(Side(name, code, given.get(name), record.get(name, set())))
    return sides


def first_difference(side):
    """(line of the code, where in the chapters, a short diff)"""
    given = [line.text for line in side.given]
    code = side.code.split("\n")[:-1]
    at = next((i for i, (a, b) in enumerate(zip(given, code)) if a != b), min(len(given), len(code)))
    where = side.given[min(at, len(given) - 1)].where if given else side.name
    chapter = where.rpartition(":")[0]
    diff = difflib.unified_diff(given, code, chapter, side.name, lineterm="", n=1)
    diff = list(diff)
    shown = diff[:16] + (["…"] if len(diff) > 16 else [])
    return at + 1, where, "\n".join("    " + line for line in shown)


def complain_about_edits(sides):
    """Stop if writing the chapters' version would lose something written in the package."""
    complaints = []
    for side in sides:
        if side.same or not side.code_edited:
            continue
        if side.given is None:
            complaints.append(f"{side.name}:1: no chapter makes this file; give it a block "
                              f"``` {{.python file={side.name}}} in a chapter, or move it out of {PACKAGE}/.")
            continue
        line, where, diff = first_difference(side)
        if side.chapters_edited:
            complaints.append(both_edited(side))
        else:
            complaints.append(f"{side.name}:{line}: edited since it was last tangled ({where} has the line). "
                              f"`make stitch` carries the edit into the chapter:\n{diff}")
    if complaints:
        raise Fault("\n".join(complaints) + "\nNothing was changed.")


def both_edited(side):
    line, where, diff = first_difference(side)
    return (f"{side.name}:{line} and {where} differ, and both were edited since the last tangling. "
            "Make one say what the other says (or delete "
            f"{side.name} if the chapter is right), then run `make tangle`:\n{diff}")


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


def do_check(root):
    complaints = []
    for side in compare(root, read_book(root)):
        if side.same:
            if (root / side.name).read_bytes() != side.text.encode():
                complaints.append(f"{side.name}: line ends differ from what is tangled; run `make tangle`.")
            elif side.recorded != {digest(side.text)}:
                complaints.append(f"{RECORD}: the digest of {side.name} is out of date; run `make tangle`.")
        elif side.code is None:
            complaints.append(f"{side.name}: missing; run `make tangle`.")
        elif side.given is None:
            what = "give it a block in a chapter or remove it" if side.code_edited else "run `make tangle`"
            complaints.append(f"{side.name}:1: no chapter makes this file; {what}.")
        elif side.code_edited and side.chapters_edited:
            complaints.append(both_edited(side))
        else:
            line, where, diff = first_difference(side)
            newer, what = (side.name, "stitch") if side.code_edited else ("the chapter", "tangle")
            complaints.append(f"{side.name}:{line} and {where} differ; {newer} was edited: "
                              f"run `make {what}`.\n{diff}")
    if complaints:
        raise Fault("\n".join(complaints))


# -------------------------------------------------------------------- stitch

def do_stitch(root):
    chapters = read_book(root)
    sides = compare(root, chapters)
    complaints = []
    for side in sides:
        if not side.same and side.code_edited and side.given is None:
            complain_about_edits([side])
        if not side.same and side.code_edited and side.chapters_edited:
            complaints.append(both_edited(side))
    if complaints:
        raise Fault("\n".join(complaints) + "\nNothing was changed.")

    edited = [side for side in sides if not side.same and side.code_edited]
    for side in edited:
        if error := syntax_error(side.code.split("\n")):
            raise Fault(f"{side.name}:{error.lineno}: syntax error: {error.msg}. Nothing was changed.")
    edits = {}                  # {(chapter name, line index): (new lines, where the edit was made)}
    for side in edited:
        for key, new, line in carry_back(side):
            if edits.setdefault(key, (new, side.name, line))[0] != new:
                other = edits[key]
                raise Fault(f"{side.name}:{line} and {other[1]}:{other[2]} come from the same line, "
                            f"{key[0]}:{key[1] + 1}, and were edited differently. Nothing was changed.")

    # apply them to a copy of the chapters, and tangle that
    with tempfile.TemporaryDirectory(prefix="stitch-") as folder:
        docs = Path(folder) / "docs"
        docs.mkdir()
        changes = {}
        for chapter in chapters:
            here = {index: new for (name, index), (new, *_) in edits.items() if name == chapter.name}
            before = chapter.text()
            lines = []
            for i, line in enumerate(chapter.lines):
                lines += here.get(i, [line])
            after = chapter.newline.join(lines)
            (docs / chapter.path.name).write_bytes(after.encode())
            if after != before:
                changes[chapter.path] = after
        try:
            result = compare(root, read_book(Path(folder)))
        except Fault as fault:
            raise Fault(f"With the edits carried back, a chapter would not be right any more:\n{fault}\n"
                        "Make this edit in the chapter by hand. Nothing was changed.") from None
    for side in result:
        if side.name in {e.name for e in edited} and not side.same:
            line, where, diff = first_difference(side)
            raise Fault(f"{side.name}:{line}: this edit cannot be carried into {where}; make it in the "
                        f"chapter by hand. Nothing was changed.\n{diff}")
    for path in changes:
        print(f"{path.parent.name}/{path.name}: stitched")
    for side in result:
        changes[root / side.name] = side.text
    write(root, changes, result)
    if not edited:
        print(f"nothing to stitch: {PACKAGE}/ holds no edits")


def carry_back(side):
    """Yield ((chapter, line index), the lines to put in its place, code line) per touched line.

    A changed line goes back to the line it came from. A new line goes to the
    piece of the line above it; at a border where that line is no piece's, to
    the piece of the line below it; between two lines of the assembly block,
    there. Blank lines added between two pieces go to the assembly block.
    """
    given, code = side.given, side.code.split("\n")[:-1]
    edits = {}                  # position in given: (new texts, code line)

    def source(text, line):
        """The text as it stands in the chapter, without the reference's indentation."""
        if text.strip() and not text.startswith(line.indent):
            raise Fault(f"{side.name}: {text!r} is indented less than the place <<{line.block.name}>> has in "
                        f"its class or function; make this edit in {line.where} by hand. Nothing was changed.")
        return text.removeprefix(line.indent) if text.strip() else text

    matcher = difflib.SequenceMatcher(None, [line.text for line in given], code, autojunk=False)
    for kind, i1, i2, j1, j2 in matcher.get_opcodes():
        old, new = given[i1:i2], code[j1:j2]
        if kind == "equal":
            continue
        if kind == "insert":
            above = given[i1 - 1] if i1 else None
            below = given[i1] if i1 < len(given) else None
            blank = not any(text.strip() for text in new)
            owner = "above"
            if above is None or below is not None and above.block is not below.block and (
                    is_assembly(above) if not blank else is_assembly(below)):
                owner = "below"
            line = above if owner == "above" else below
            if line is None:
                raise Fault(f"{side.name}:1: the chapters make an empty file; write these lines in "
                            f"its block. Nothing was changed.")
            position = i1 - 1 if owner == "above" else i1
            text = [source(t, line) for t in new]
            kept = edits.get(position, ([source(line.text, line)], 0))[0]
            edits[position] = (kept + text if owner == "above" else text + kept, j1 + 1)
        elif len(old) == len(new):
            for k, (line, text) in enumerate(zip(old, new)):
                edits[i1 + k] = ([source(text, line)], j1 + k + 1)
        else:
            if new and len({id(line.block) for line in old}) > 1:
                raise Fault(f"{side.name}:{j1 + 1}: this change runs over the border between pieces "
                            f"({old[0].where} to {old[-1].where}), so it is not clear which line belongs to "
                            "which; make it in the chapter by hand, or one piece at a time. Nothing was changed.")
            for k in range(i1, i2):
                edits[k] = ([], j1 + 1)
            if new:
                edits[i1] = ([source(text, old[0]) for text in new], j1 + 1)

    for block in {id(line.block): line.block for line in given}.values():
        positions = [k for k, line in enumerate(given) if line.block is block]
        if all(k in edits and not edits[k][0] for k in positions) and not is_assembly(given[positions[0]]):
            raise Fault(f"{side.name}:{edits[positions[0]][1]}: the whole piece {block.name!r} is gone. If that is "
                        f"meant, delete its fence at {block.at()} and its <<{block.name}>>, then run "
                        "`make tangle`. Nothing was changed.")
    for k, (new, line) in edits.items():
        yield (given[k].block.chapter.name, given[k].index), new, line


def is_assembly(line):
    return line.block in line.block.chapter.assemblies


# --------------------------------------------------------------------- write

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


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    for name, text in [("tangle", "chapters to package"), ("check", "compare, change nothing"),
                       ("stitch", "edits in the package back to the chapters")]:
        commands.add_parser(name, help=text)
    prefix = commands.add_parser("prefix", help="tangle the first K chapters into DIR")
    prefix.add_argument("K", type=int)
    prefix.add_argument("DIR", type=Path)
    options = parser.parse_args(arguments)
    try:
        if options.command == "prefix":
            tangle(sorted((ROOT / "docs").glob("[0-9][0-9]-*.md"))[:options.K], options.DIR)
        else:
            {"tangle": do_tangle, "check": do_check, "stitch": do_stitch}[options.command](ROOT)
    except Fault as fault:
        print(fault, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted; no file is half written", file=sys.stderr)
        return 130
    except OSError as error:
        print(f"{error.filename or 'book.py'}: {error.strerror or error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
