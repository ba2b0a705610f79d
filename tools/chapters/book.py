"""All chapters together: which files they are, and what can only be seen across them."""

import difflib
import re

from tools.chapters.read import REFERENCE, Fault, read_chapter

PACKAGE = "tinyllm"


def chapter_paths(docs):
    """The chapters in their order. Hidden files are not ours: editors and systems leave them beside the one
    that is meant."""
    return sorted(path for path in docs.glob("*.md") if not path.name.startswith("."))


def refuse_other_places(docs):
    """A chapter in a folder of docs/ would neither be tangled nor executed."""
    if not chapter_paths(docs):
        raise Fault(f"{docs}: no chapters here.")
    for path in sorted(docs.glob("*/**/*.md")):
        name = path.relative_to(docs.parent)
        if any(part.startswith(".") for part in name.parts):
            continue
        text = path.read_text("utf-8", errors="replace")
        if re.search(r"^(```python|``` *\{\.python|jupyter:)", text, re.M):
            raise Fault(f"{name.as_posix()}:1: a chapter in a folder of its own would neither be tangled nor "
                        "executed; move it to docs/, and its name into nav: in mkdocs.yml.")


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
            if not re.fullmatch(PACKAGE + r"/\w+\.pyi?", block.name):
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
    refuse_other_places(root / "docs")
    return [read_chapter(path) for path in chapter_paths(root / "docs")]
