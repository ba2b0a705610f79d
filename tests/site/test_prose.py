"""No loose figure: a number in the prose is one that a cell of the same section computes, prints or is given.

The rule covers numbers that look measured or counted: with a decimal point, a thousands separator, four digits
and more, or a unit. Years, versions of Python and powers of ten ("some 100,000 entries") are free, and so is
what a paragraph reports as the article's own claim. A section is what stands under one `##` heading; the sections
before and after it count too, for the text looks back and ahead.
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
UNIT = re.compile(r"\s?(%|(times|nats|ms|MB|MiB|GB|symbols per second)\b)")
FREE = re.compile(r"(19|20)\d\d|1(0|,000)+")


def loose_numbers(notebook):
    """(number, paragraph) for every number of the prose that no cell near it shows."""
    for number, paragraph, shown in numbers_of(notebook):
        if value(number) not in shown:
            yield number, paragraph


def numbers_of(notebook):
    """(number, its paragraph, the numbers that cells near it show) for every number the rule covers."""
    sections = [[]]
    for cell in notebook["cells"]:
        if cell["cell_type"] == "markdown" and re.search(r"^## ", "".join(cell["source"]), flags=re.M):
            sections.append([])
        sections[-1].append(cell)
    shown = [set().union(*(shown_by(cell) for cell in section if cell["cell_type"] == "code")) for section in sections]
    for n, section in enumerate(sections):
        near = set().union(*shown[max(n - 1, 0) : n + 2])
        for cell in section:
            if cell["cell_type"] == "markdown":
                for number, paragraph in numbers_in("".join(cell["source"])):
                    yield number, paragraph, near


def shown_by(cell):
    text = "".join(cell["source"])
    for output in cell["outputs"]:
        data = output.get("data", {})
        text += "".join(output.get("text", [])) + "".join(data.get("text/plain", []))
        text += "".join(data.get("text/markdown", []))
    return {value(number) for number in re.findall(r"\d[\d,_]*(?:\.\d+)?(?:e-?\d+)?", text)}


def numbers_in(markdown):
    prose = re.sub(r"^(```|~~~).*?^\1|^( {4}|\t).*?$", "", markdown, flags=re.M | re.S)
    for paragraph in re.split(r"\n\s*\n", prose):
        if "article" in paragraph:
            continue
        words = re.sub(r"\]\([^)]*\)|`[^`]*`|Python 3\.\d+", " ", paragraph)
        for found in NUMBER.finditer(words):
            number, after = found[0], words[found.end():]
            measured = "." in number or "," in number or len(number) >= 4 or UNIT.match(after)
            if measured and not FREE.fullmatch(number):
                yield number, paragraph


def executed(chapter):
    path = SITE / f"{chapter}/{chapter}.ipynb" if chapter != "index" else SITE / "index.ipynb"
    return json.loads(path.read_text(encoding="utf-8"))


def value(number):
    return float(number.rstrip(",").replace(",", "").replace("_", ""))


@pytest.mark.site
@pytest.mark.parametrize("chapter", CHAPTERS)
def test_a_number_in_the_prose_comes_from_a_cell(chapter):
    loose = [f"{number} in: {' '.join(paragraph.split())[:120]}"
             for number, paragraph in loose_numbers(executed(chapter))]
    assert not loose, "numbers that no cell near them shows:\n" + "\n".join(loose)


@pytest.mark.site
def test_a_false_number_would_be_found():
    """Change the last digit of each number of two digits and more: a cell near it shows few of these."""
    planted, passed = 0, []
    for chapter in CHAPTERS:
        for number, _, shown in numbers_of(executed(chapter)):
            if len(number.strip("0.")) < 2:
                continue                # one digit: some cell or other has every one of them
            for step in range(1, 10):
                false = number[:-1] + str((int(number[-1]) + step) % 10)
                planted += 1
                if value(false) in shown:
                    passed.append(f"{chapter}: {false} for {number}")
    assert planted > 100 and len(passed) < planted / 10, passed


def test_a_loose_number_is_found():
    def cell(kind, source, *outputs):
        return {"cell_type": kind, "source": [source], "outputs": list(outputs)}

    notebook = {"cells": [
        cell("markdown", "A loss of 1.234 and 98,816 parameters since 2019, says `9.99`, of 10,000.\n\nThe article says 0.87."),
        cell("code", "print(total)", {"output_type": "stream", "text": ["98,816\n"]}),
        cell("markdown", "## Next\n\nSome 37 % of 3 heads, of 98,816."),
        cell("markdown", "## Something else"),
        cell("markdown", "## Far away\n\nAgain 98,816, and 12 times 12."),
    ]}
    assert [number for number, _ in loose_numbers(notebook)] == ["1.234", "37", "98,816", "12"]
