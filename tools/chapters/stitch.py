"""Edits of the package carried back to the chapters."""

import difflib
import tempfile
from pathlib import Path

from tools.chapters.book import PACKAGE, read_book
from tools.chapters.read import Fault, syntax_error
from tools.chapters.record import both_edited, compare, complain_about_edits, first_difference
from tools.chapters.tangle import is_assembly
from tools.chapters.write import write


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
