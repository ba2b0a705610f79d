"""Building pages: faults stop the build and say where; outputs are never older than the package.

Each test builds a book of two small chapters in a copy of the tools, in a folder whose name has
spaces and letters of all kinds.
"""

import html
import json
import re
import shutil
import subprocess
import sys

import pytest

from small_book import TWO, Book
from tools.site import figures, maths, pieces

pytestmark = [pytest.mark.book, pytest.mark.slow]


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
    assert "running 02-two.md: tinyllm/mod.py changed\n" in book.build()
    assert "the answer is 43" in book.page("02-two")

    book.edit("docs/02-two.md", '"the answer is"', '"now"')
    assert "running 01-one.md" not in (said := book.build()) and "running 02-two.md: its code changed\n" in said
    assert "now 43" in book.page("02-two")

    # And back again: what was computed for this state of the package is still there.
    book.edit("docs/02-two.md", '"now"', '"the answer is"')
    book.edit("tinyllm/mod.py", "41 + 2", "41 + 1")
    assert "running" not in book.build()
    assert "the answer is 42" in book.page("02-two")

    # A module that no chapter imports, and a look at its own files by one that does not run code of the package.
    book.write("tinyllm/other.py", "other = 1\n")
    book.write("docs/assets/bench.json", "{}")
    assert "running" not in book.build()

    book.write("constraints.txt", "torch==9\n")
    assert book.build().count("running") == 2


def test_a_file_that_a_chapter_reads_makes_it_run_again(book):
    book.edit("docs/02-two.md", "print(", "from pathlib import Path\nimport tinyllm\n"
              'print((Path(tinyllm.__file__).parents[1] / "docs/assets/bench.json").read_text())\nprint(')
    book.write("docs/assets/bench.json", "first result")
    book.build()
    assert "first result" in book.page("02-two")
    readers = subprocess.run([sys.executable, "-m", "tools.site", "--readers"], cwd=book.folder, capture_output=True, text=True)
    assert "docs/assets/bench.json: 1: 02-two\n" in readers.stdout and "tinyllm/mod.py: 1: 02-two\n" in readers.stdout
    book.write("docs/assets/bench.json", "second result")
    assert "running 02-two.md" in (said := book.build()) and "running 01-one.md" not in said
    assert "second result" in book.page("02-two")


WAITS = """\
```python
import os, time
open({mine!r}, "w").close()
while not os.path.exists({other!r}):
    time.sleep(0.01)
```
"""


def test_chapters_run_at_once_where_that_changes_nothing(book, tmp_path, monkeypatch):
    """Each of the two waits for the other: one after the other, they would wait for ever."""
    monkeypatch.setenv("BOOK_JOBS", "2")
    one, two = str(tmp_path / "one"), str(tmp_path / "two")
    book.chapter("02-two", WAITS.format(mine=two, other=one), "01-one")
    book.edit("docs/01-one.md", "``` {.python", WAITS.format(mine=one, other=two) + "\n``` {.python")
    said = book.build()
    assert said.count("running") == said.count("ran ") == 2


def test_a_chapter_that_measures_runs_alone(book, monkeypatch):
    monkeypatch.setenv("BOOK_JOBS", "3")
    book.edit("docs/02-two.md", "print(", "import time\nstart = time.perf_counter()\nprint(")
    book.edit("docs/01-one.md", "``` {.python", "```python\nimport time\ntime.monotonic()\n```\n\n``` {.python")
    book.chapter("03-three", "```python\nprint('quick')\n```\n", "01-one")
    book.edit("mkdocs.yml", "02-two.md, ", "02-two.md, 03-three.md, ")
    steps = re.findall(r"(running|ran) (\d\d)", book.build())
    assert steps[:2] == [("running", "03"), ("ran", "03")], "those that measure come last"
    assert sorted(steps[2:4]) == sorted([("running", steps[2][1]), ("ran", steps[2][1])]), "two measured at once"
    assert len(steps) == 6


def test_a_chapter_that_does_not_measure_has_one_thread(book, monkeypatch):
    """So its numbers are the same on every number of cores."""
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    threads = "import os\nprint('threads:', os.environ['OMP_NUM_THREADS'])\n"
    book.edit("docs/01-one.md", "``` {.python", f"```python\n{threads}```\n\n``` {{.python")
    book.edit("docs/02-two.md", "print(", f"import time\ntime.monotonic()\n{threads}print(")
    book.build()
    assert "threads: 1" in book.page("01-one") and "threads: 3" in book.page("02-two")


def test_what_editors_and_systems_leave_behind_is_left_alone(book):
    (book.folder / "docs/.#01-one.md").symlink_to("somebody@somewhere.1234")
    for name in ("._01-one.md", ".01-one.md.swp", "01-one.md~", ".DS_Store"):
        (book.folder / "docs" / name).write_bytes(b"\0\xff```python #answer\n")
    book.write("docs/01-one.ipynb", "not even a notebook")
    assert "running" not in book.build()
    assert "41 + 1" in html.unescape(re.sub("<.*?>", "", book.page("01-one")))
    left = [path.name for path in (book.folder / "site").rglob("*") if path.name.startswith(".") or path.name.endswith("~")]
    assert not left


def test_a_chapter_in_a_folder_is_refused_with_its_path(book):
    (book.folder / "docs/part").mkdir()
    (book.folder / "docs/01-one.md").rename(book.folder / "docs/part/01-one.md")
    assert "docs/part/01-one.md:1: a chapter in a folder" in book.build(fails=True)


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
