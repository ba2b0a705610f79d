"""No loose figure: a number in the prose is one that a cell of the same chapter computes, prints or is given.

The rule covers numbers that look measured or counted (with a decimal point, a thousands separator, or four
digits and more). Years, versions of Python and powers of ten ("some 100,000 entries") are free, and so is
what a paragraph reports as the article's own claim.
"""

import json
import re
from pathlib import Path

import pytest

pytestmark = pytest.mark.book

ROOT = Path(__file__).resolve().parents[2]
SITE = ROOT / "site"
CHAPTERS = sorted(path.stem for path in (ROOT / "docs").glob("[0-9A]*.md") if path.stem not in ("A1-editing", "A7-references")) + ["index"]
NUMBER = re.compile(r"(?<![\w.,/#-])\d+(?:,\d{3})*(?:\.\d+)?(?![\w]|[.,]\d)")
FREE = re.compile(r"(19|20)\d\d|1(0|,000)+")


def loose_numbers(notebook):
    """(number, paragraph) for every number of the prose that no cell of the notebook shows."""
    shown = set()
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            text = "".join(cell["source"])
            for output in cell["outputs"]:
                text += "".join(output.get("text", [])) + "".join(output.get("data", {}).get("text/plain", []))
                text += "".join(output.get("data", {}).get("text/markdown", []))
            shown |= {value(number) for number in re.findall(r"\d[\d,_]*(?:\.\d+)?(?:e-?\d+)?", text)}
    for cell in notebook["cells"]:
        if cell["cell_type"] != "markdown":
            continue
        prose = re.sub(r"^(```|~~~).*?^\1|^( {4}|\t).*?$", "", "".join(cell["source"]), flags=re.M | re.S)
        for paragraph in re.split(r"\n\s*\n", prose):
            if "article" in paragraph:
                continue
            words = re.sub(r"\]\([^)]*\)|`[^`]*`|Python 3\.\d+", " ", paragraph)
            for number in NUMBER.findall(words):
                measured = "." in number or "," in number or len(number) >= 4
                if measured and not FREE.fullmatch(number) and value(number) not in shown:
                    yield number, paragraph


def value(number):
    return float(number.rstrip(",").replace(",", "").replace("_", ""))


@pytest.mark.site
@pytest.mark.parametrize("chapter", CHAPTERS)
def test_a_number_in_the_prose_comes_from_a_cell(chapter):
    path = SITE / f"{chapter}/{chapter}.ipynb" if chapter != "index" else SITE / "index.ipynb"
    loose = [f"{number} in: {' '.join(paragraph.split())[:120]}"
             for number, paragraph in loose_numbers(json.loads(path.read_text()))]
    assert not loose, "numbers that no cell of this chapter shows:\n" + "\n".join(loose)


def test_a_loose_number_is_found():
    def cell(kind, source, *outputs):
        return {"cell_type": kind, "source": [source], "outputs": list(outputs)}

    notebook = {"cells": [
        cell("markdown", "A loss of 1.234 and 98,816 parameters since 2019, says `9.99`, of 10,000.\n\nThe article says 0.87."),
        cell("code", "print(total)", {"output_type": "stream", "text": ["98,816\n"]}),
    ]}
    assert [number for number, _ in loose_numbers(notebook)] == ["1.234"]
