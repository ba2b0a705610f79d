"""Building pages: faults stop the build and say where; outputs are never older than the package.

Each test builds a book of two small chapters in a copy of the tools, in a folder whose name has
spaces and letters of all kinds.
"""

import html
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import mkdocs_fork
from tools.site import figures, maths, pieces

pytestmark = [pytest.mark.book, pytest.mark.slow]

ROOT = Path(__file__).resolve().parents[2]

CHAPTER = """\
---
title: {title}
description: A small chapter.
jupyter:
  kernelspec:
    display_name: Python 3
    language: python
    name: python3
---

# {title}

See [the other]({other}.md#its-end). The price is $x^2$.

> [!NOTE]
> A note.

{cells}

## Its end
"""
ONE = """\
```python #answer
def answer():
    return 41 + 1
```

``` {.python file=tinyllm/mod.py}
<<answer>>
```
"""
TWO = """\
```python
from tinyllm.mod import answer
print("the answer is", answer())
```
"""


class Book:
    def __init__(self, folder):
        self.folder = folder

    def begin(self):
        shutil.copytree(ROOT / "tools", self.folder / "tools", ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copytree(ROOT / "docs" / "assets", self.folder / "docs" / "assets")
        config = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
        config = re.sub(r"^nav:\n(?:  .*\n)+", "nav: [index.md, 01-one.md, 02-two.md, package.md]\n", config, flags=re.M)
        self.write("mkdocs.yml", config)
        self.write("constraints.txt", "")
        self.write("tinyllm/__init__.py", "")  # or an installed tinyllm would come before this folder
        self.write("tinyllm/mod.py", "def answer():\n    return 41 + 1\n")
        self.write("docs/index.md", "---\ntitle: Cover\ndescription: A book.\n---\n# Cover\n")
        self.chapter("01-one", ONE, "02-two")
        self.chapter("02-two", TWO, "01-one")

    def write(self, name, text):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def chapter(self, name, cells, other):
        self.write(f"docs/{name}.md", CHAPTER.format(title=name, cells=cells, other=other))

    def edit(self, name, old, new):
        text = (self.folder / name).read_text(encoding="utf-8")
        assert old in text
        self.write(name, text.replace(old, new))

    def build(self, fails=False):
        status, said = mkdocs_fork.build(self.folder, os.environ | {"NO_MKDOCS_2_WARNING": "1", "NO_COLOR": "1"})
        assert (status != 0) == fails, said
        assert "Traceback" not in said and len(said.splitlines()) < 25, said
        return said

    def page(self, name):
        return (self.folder / "site" / name / "index.html").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    book = Book(tmp_path_factory.mktemp("book") / "Bücher für alle 书")
    book.folder.mkdir()
    book.begin()
    assert book.build().count("running") == 2
    return book


@pytest.fixture
def book(built, tmp_path):
    """The book, already built once."""
    return Book(shutil.copytree(built.folder, tmp_path / "Bücher für alle 书"))


def test_outputs_follow_the_code_and_the_package_and_not_the_prose(book):
    assert "the answer is 42" in book.page("02-two")

    book.edit("docs/02-two.md", "See [the other]", "Do see [the other]")
    assert "running" not in book.build()
    assert "Do see" in book.page("02-two")

    # The package changes and the second chapter does not: its output has to.
    book.edit("tinyllm/mod.py", "41 + 1", "41 + 2")
    assert "running 02-two.md" in book.build()
    assert "the answer is 43" in book.page("02-two")

    book.edit("docs/02-two.md", '"the answer is"', '"now"')
    assert "running 01-one.md" not in (said := book.build()) and "running 02-two.md" in said
    assert "now 43" in book.page("02-two")

    # And back again: what was computed for this state of the package is still there.
    book.edit("docs/02-two.md", '"now"', '"the answer is"')
    book.edit("tinyllm/mod.py", "41 + 2", "41 + 1")
    assert "running" not in book.build()
    assert "the answer is 42" in book.page("02-two")

    book.write("constraints.txt", "torch==9\n")
    assert book.build().count("running") == 2


def test_two_builds_give_the_same_site(book):
    def site():
        folder = book.folder / "site"
        return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*")
                if path.is_file() and "sitemap" not in path.name}
    book.edit("docs/02-two.md", "print(", 'import matplotlib.pyplot as plt\nplt.plot([1, 2])\nprint(')
    book.edit("docs/02-two.md", "```python\n", '```python alt="a line that rises"\n')
    book.build()
    first = site()
    assert "02-two/figure-1-dark.svg" in first
    shutil.rmtree(book.folder / ".cache")
    book.build()
    assert site() == first


@pytest.mark.parametrize("old, new, message", [
    ("01-one.md#its-end", "01-on.md", r"docs/02-two\.md:13: .*'01-on\.md'.*not found"),
    ("01-one.md#its-end", "01-one.md#nowhere", r"docs/02-two\.md:13: .*does not contain an anchor '#nowhere'"),
    ("print(", "print(1)\nraise ValueError('no') #", r"docs/02-two\.md:21 \(code cell 1\): ValueError: no\n(.*\n){2}  +> raise ValueError"),
    ("print(", "prnt((\n", r"docs/02-two\.md:2[01] \(code cell 1\): .*Error: "),
    ("print(", "import os; os._exit(1) #", r"docs/02-two\.md:19 \(code cell 1\): the Python process died"),
    ("print(", "import matplotlib.pyplot as plt; plt.plot([1, 2]) #", r"docs/02-two\.md:19 \(code cell 1\): .* alt="),
    ("print(", "import os; print(os.getcwd()) #", r"docs/02-two\.md:19 \(code cell 1\): the output shows a path"),
], ids=[
    "unknown chapter", "unknown anchor", "an error", "a syntax error", "a dead process", "a figure without words",
    "a path of this machine"])
def test_a_fault_stops_the_build_and_says_where(book, old, new, message):
    book.edit("docs/02-two.md", old, new)
    assert re.search(message, said := book.build(fails=True)), said
    if "ran 02-two" in said:  # again, now that the cache could answer
        assert re.search(message, said := book.build(fails=True)), said


def test_intended_errors_and_warnings_and_hidden_cells(book):
    book.chapter("02-two", TWO + '''
```python tags=["raises-exception"]
{}["key"]
```

```python
import sys
print("noise", file=sys.stderr)
```

```python tags=["stderr"]
print("a <warning>", file=sys.stderr)
```

```python tags=["hide"]
print("hid" + "den")
```

```python
import time
print("one", flush=True)
time.sleep(0.5)  # long enough for a message of its own
print("two")
```

```python tags=["raises-exception"]
import json
json.loads("no")
```
''', "01-one")
    book.build()
    page = book.page("02-two")
    assert "KeyError: 'key'" in page.replace("&#39;", "'") and "\x1b" not in page and "Traceback" not in page
    assert "a &lt;warning&gt;" in page and ">noise" not in page and "hidden</samp>" not in page
    notebook = json.loads((book.folder / "site/02-two/02-two.ipynb").read_text(encoding="utf-8"))
    assert any("hid" in "".join(cell["source"]) for cell in notebook["cells"]), "the notebook needs hidden cells too"
    outputs = [output for cell in notebook["cells"] for output in cell.get("outputs", ())]
    assert "one\ntwo\n" in ["".join(output.get("text", "")) for output in outputs], "one text, however it came"
    errors = [output["traceback"] for output in outputs if output["output_type"] == "error"]
    assert errors[0] == ["KeyError: 'key'"] and len(errors[1]) == 1, "a traceback names this machine's folders"
    # The error is no longer intended: what the cache holds may not be published.
    book.edit("docs/02-two.md", 'python tags=["raises-exception"]', "python")
    assert re.search(r"\(code cell 2\): KeyError", book.build(fails=True))


def test_text_outputs_reach_the_page_unchanged(book):
    nasty = r"<b> & \ *a* _b_ `c` $x$ [d](e) &lt; <<f>> {{ g }} </div>"
    book.chapter("02-two", f"```python\nprint({nasty!r})\nprint()\nprint('    indented')\n```\n", "01-one")
    book.build()
    shown = re.search(r"<samp>(.*?)</samp>", book.page("02-two"), re.S)[1]
    assert html.unescape(shown) == nasty + "\n\n    indented"


def test_pieces_and_modules_are_linked(built):
    page = built.page("01-one")
    assert 'id="piece-answer"' in page and 'href="#module-mod"' in page and 'href="#piece-answer"' in page
    assert 'href="../01-one/#piece-answer"' in built.page("package")


def test_the_strip_stands_on_chapters_only(built):
    page = built.page("01-one")
    assert page.index("</h1>") < page.index('<nav class="strip"') < page.index("See <a")
    assert 'href="../02-two/"' in page and 'class="strip"' not in built.page("package")


def test_edit_links_only_with_a_repository(book, monkeypatch):
    assert 'rel="edit"' not in book.page("01-one")
    monkeypatch.setenv("REPO_URL", "https://example.org/a/b")
    book.build()
    assert 'href="https://example.org/a/b/edit/main/docs/01-one.md"' in book.page("01-one")
    assert "data-md-component=\"source\"" not in book.page("01-one")  # Material would ask GitHub for stars


def test_formulas():
    assert maths.mathml(r"-\infty") == '<math xmlns="http://www.w3.org/1998/Math/MathML" display="inline"><mrow><mo>−</mo><mi>∞</mi></mrow></math>'
    assert "<mi>log</mi><mspace" in maths.mathml(r"\log p")
    assert "<mspace" not in maths.mathml(r"\log(p)")
    shown = maths.render(r'<p>a <span class="arithmatex">\(x &lt; 1\)</span></p><div class="arithmatex">\[\frac{1}{2}\]</div>')
    assert "arithmatex" not in shown and "<mo>&lt;</mo>" in shown and 'display="block"' in shown


def test_a_fence_is_longer_than_the_backticks_in_it():
    assert pieces.fence("a = '```'").startswith("```` {.python}\n")


def test_dark_figures():
    class Output:
        data = {"image/svg+xml": f'<?xml?><svg width="72pt" height="36pt"><path style="stroke: {figures.INK}"/>'
                                 '<path style="stroke: #000000"/><text style="fill: #000000"/></svg>'}
    tag, files = figures.figures(Output, 'a "line"', 3)
    assert 'src="figure-3.svg#only-light"' in tag and 'alt="a &quot;line&quot;"' in tag and 'width="96" height="48"' in tag
    dark = files["figure-3-dark.svg"].decode()
    assert dark.count(f"stroke: {figures.DARK_INK}") == 2 and "fill: #000000" in dark
