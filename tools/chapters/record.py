"""The two sides beside each other, and which of them was edited.

`tangled.sha256` is committed and holds the digest of every file as it was last tangled. A package file that
still has its digest was not touched by hand and may be overwritten; one that has not, holds an edit and is
never overwritten. Being part of the repository, the record is right on a fresh clone, after a pull, on
another branch and without Git.
"""

import difflib
import hashlib
import re
from dataclasses import dataclass

from tools.chapters.book import PACKAGE, read_book
from tools.chapters.read import Fault, read_text
from tools.chapters.tangle import Line, join, weave_lines

RECORD = "tangled.sha256"


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
    given = weave_lines(root, chapters)
    record = read_record(root)
    modules = [*(root / PACKAGE).glob("*.py"), *(root / PACKAGE).glob("*.pyi")]
    on_disk = {f"{PACKAGE}/{path.name}": path for path in sorted(modules)}
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
