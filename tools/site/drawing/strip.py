"""You are here: the model as a strip at the top of every chapter, each part a link to its chapter."""

import re
from html import escape

# The parts on the way of a text through the model, the chapter of each, and its name in print(model).
FLOW = [("text", 3, ""), ("embedding", 5, "embedding"), ("positions", 5, "positions"), ("mask", 4, "mask"),
        ("attention", 6, "blocks.0.attention"), ("+ norm", 7, "blocks.0.norm1"), ("ffn", 7, "blocks.0.ffn"),
        ("head", 8, "head"), ("loss", 9, ""), ("generation", 10, "")]
WHOLE = [("dissection", 1), ("sizes", 2), ("assembly", 8), ("microscope", 11), ("beyond", 12)]
BLOCK = {"mask", "attention", "+ norm", "ffn"}                  # what a block is made of, or is handed
MODEL = {label for label, _, part in FLOW if part}
# What else a chapter is about: all parts, those with parameters, those in the model.
ALSO = {1: {label for label, _, _ in FLOW}, 2: MODEL - {"positions", "mask"}, 8: MODEL, 11: MODEL, 12: MODEL}
CHAPTER = re.compile(r"(\d\d)-[\w-]+\.md")


def chapters(names) -> dict[int, str]:
    """Number -> file of each chapter."""
    return {int(found[1]): name for name in sorted(names) if (found := CHAPTER.fullmatch(name))}


def insert(content: str, name: str, book: dict[int, str], title: dict[str, str], url) -> str:
    """The page of a chapter, with the strip below its heading."""
    if not (found := CHAPTER.fullmatch(name)):
        return content
    head, end, rest = content.partition("</h1>")
    return head + end + html(int(found[1]), book, title, url) + rest if end else content


def html(here: int, book: dict[int, str], title: dict[str, str], url) -> str:
    """`url(file)` is the address of a chapter, as seen from this one."""
    def item(label, chapter, kind=""):
        kinds = [*kind.split(), *["here"] * (chapter == here), *["lit"] * (chapter != here and label in lit)]
        name, current = book.get(chapter), ' aria-current="page"' * (chapter == here)
        words = f"<b>{chapter}</b> {escape(label)}"
        if name:
            words = (f'<a href="{escape(url(name) or "./", quote=True)}" '
                     f'title="{escape(title.get(name, ""), quote=True)}"{current}>{words}</a>')
        else:
            words = f"<span>{words}</span>"
        return f'<li class="{" ".join(kinds)}">{words}</li>' if kinds else f"<li>{words}</li>"

    lit = ALSO.get(here, set())
    flow = "".join(item(label, chapter, "block" * (label in BLOCK)) for label, chapter, _ in FLOW)
    whole = "".join(item(label, chapter) for label, chapter in WHOLE)
    return (f'\n<nav class="strip" aria-label="You are here: the parts of the model and their chapters" '
            f'data-search-exclude><ol class="flow" role="list">{flow}</ol>'
            f'<ol class="whole" role="list" aria-label="The whole model">{whole}</ol></nav>\n')
