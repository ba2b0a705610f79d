"""The chapters make the package, and edits travel both ways without loss.

Everything happens in temporary copies: of the repository, or of a book of two
small chapters that has one of each thing a chapter can have.
"""

import io
import itertools
import os
import re
import shutil
import signal
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest
from filelock import FileLock

from tools.chapters import tangle
from tools.chapters.__main__ import main

pytestmark = pytest.mark.book

ROOT = Path(__file__).resolve().parents[2]
ENTANGLED = tangle.call_entangled     # as make runs it; conftest puts a quicker one in its place

HEAD = """\
---
title: A chapter
jupyter:
  kernelspec:
    display_name: Python 3
    language: python
    name: python3
---

"""
ONE = HEAD + '''\
First the greeting.

```python #greet
def greet(name):
    """Say hello.

    Grüße, 世界
    """
    return f"hello {name}"
```

```python tags=["figure"]
greet("you")    # a demonstration, not tangled
```

And its twin:

```python #part
def part(name):
    return f"bye {name}"
```

    ```python #greet
    an indented fence is only shown
    ```

``` {.python file=tinyllm/words.py}
"""Words."""

<<greet>>


<<part>>
```
'''
TWO = HEAD + '''\
```python #count
def count(self):
    total = 0

    for _ in self:
        total += 1
    return total
```

```console
$ echo "not executed, not tangled"
```

``` {.python file=tinyllm/lists.py}
"""Lists."""


class Countable(list):
    """Counts itself."""

    <<count>>

    size = 0
```
'''
WORDS = '''\
"""Words."""

def greet(name):
    """Say hello.

    Grüße, 世界
    """
    return f"hello {name}"


def part(name):
    return f"bye {name}"
'''


class Copy:
    """A book in a folder of its own, driven as make drives it."""

    def __init__(self, root):
        self.root = root
        self.one, self.two = root / "docs/01-words.md", root / "docs/02-lists.md"
        self.words, self.lists = root / "tinyllm/words.py", root / "tinyllm/lists.py"

    def run(self, *arguments, fails=False):
        """Run a command of tools.chapters; returns what it printed, or the error it stopped with."""
        out, err = io.StringIO(), io.StringIO()
        with redirect_stdout(out), redirect_stderr(err):
            status = main(arguments, self.root)
        assert status == (1 if fails else 0), out.getvalue() + err.getvalue()
        return err.getvalue() if fails else out.getvalue()

    def edit(self, path, old, new):
        """Replace the one place that says `old`; returns the text before."""
        before = path.read_bytes().decode()
        assert before.count(old) == 1
        path.write_bytes(before.replace(old, new).encode())
        return before

    def state(self):
        return {path.relative_to(self.root): path.read_bytes() for path in self.root.rglob("*")
                if path.is_file() and not {"__pycache__", ".cache"} & {*path.parts}}


@pytest.fixture(scope="module")
def tangled(tmp_path_factory):
    root = tmp_path_factory.mktemp("tangled")
    (root / "docs").mkdir()
    shutil.copy(ROOT / "entangled.toml", root)
    copy = Copy(root)
    copy.one.write_bytes(ONE.encode())
    copy.two.write_bytes(TWO.encode())
    copy.run("tangle")
    return root


@pytest.fixture
def copy(tangled, tmp_path):
    """The small book, tangled, in a folder whose name has spaces and letters of all kinds."""
    return Copy(shutil.copytree(tangled, tmp_path / "Bücher für alle 书"))


def copy_of_repository(folder, *names):
    for name in names:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__", "*.safetensors"))
        else:
            shutil.copy(ROOT / name, folder)
    return Copy(folder)


def package(root):
    return {path.name: path.read_bytes() for path in (root / "tinyllm").glob("*.py")}


# ----------------------------------------------------------- this repository

def test_chapters_and_package_agree():
    done = subprocess.run([sys.executable, "-m", "tools.chapters", "check"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, "\n" + done.stderr


def test_tangling_again_gives_the_committed_package(tmp_path):
    tangle.tangle_beginning(ROOT, {path.name for path in (ROOT / "docs").glob("*.md")}, tmp_path)
    assert package(tmp_path) == package(ROOT)


def test_deleted_package_comes_back(tmp_path):
    copy_of_repository(tmp_path, "docs", "entangled.toml", "tangled.sha256").run("tangle")
    assert package(tmp_path) == package(ROOT)
    assert (tmp_path / "tangled.sha256").read_bytes() == (ROOT / "tangled.sha256").read_bytes()


def test_plain_entangled_gives_the_same_package_but_for_the_final_newline(tmp_path):
    copy_of_repository(tmp_path, "docs", "entangled.toml")
    subprocess.run([sys.executable, "-m", "entangled.main", "tangle"], cwd=tmp_path, capture_output=True)
    plain = {name: text.rstrip(b"\n") + b"\n" for name, text in package(tmp_path).items()}
    assert plain == package(ROOT)


def test_package_has_at_most_500_lines():
    lines = {name: text.count(b"\n") for name, text in package(ROOT).items()}
    assert sum(lines.values()) <= 500, lines


# ------------------------------------------------------------------- tangle

def test_tangled_text(copy):
    assert copy.words.read_text("utf-8") == WORDS
    assert "    def count(self):\n        total = 0\n\n        for" in copy.lists.read_text("utf-8")
    assert copy.run("tangle") == "" and copy.run("check") == ""


def test_an_edited_chapter_is_tangled(copy):
    copy.edit(copy.one, "hello {", "good morning {")
    error = copy.run("check", fails=True)
    assert "docs/01-words.md:18" in error and "tinyllm/words.py:8" in error and "make tangle" in error
    copy.run("tangle")
    assert copy.words.read_text("utf-8") == WORDS.replace("hello {", "good morning {")
    copy.run("check")


def test_tangle_never_overwrites_an_edit_of_the_package(copy):
    copy.edit(copy.words, "hello {", "good morning {")
    state = copy.state()
    for command in ("tangle", "check"):
        error = copy.run(command, fails=True)
        assert "tinyllm/words.py:8" in error and "docs/01-words.md:18" in error and "make stitch" in error
    assert copy.state() == state


def test_tangle_leaves_unchanged_files_alone(copy):
    before = copy.lists.stat().st_mtime_ns
    copy.edit(copy.one, "hello {", "good morning {")
    copy.run("tangle")
    assert copy.lists.stat().st_mtime_ns == before


def test_a_file_no_chapter_makes_any_more_is_removed(copy):
    copy.two.unlink()
    assert "make tangle" in copy.run("check", fails=True)
    assert "removed" in copy.run("tangle")
    assert not copy.lists.exists() and copy.words.exists()


def test_a_file_no_chapter_ever_made_is_reported_and_kept(copy):
    (copy.root / "tinyllm/new.py").write_text("x = 1\n")
    for command in ("tangle", "check", "stitch"):
        assert "tinyllm/new.py:1" in copy.run(command, fails=True)
    assert (copy.root / "tinyllm/new.py").exists()


def test_without_a_record_nothing_is_overwritten(copy):
    (copy.root / "tangled.sha256").unlink()
    assert "tangled.sha256" in copy.run("check", fails=True)
    assert copy.run("tangle") == ""             # both sides agree: only the record is written
    (copy.root / "tangled.sha256").unlink()
    copy.edit(copy.words, "hello {", "good morning {")
    state = copy.state()
    assert "tinyllm/words.py:8" in copy.run("tangle", fails=True)
    assert "tinyllm/words.py:8" in copy.run("stitch", fails=True)
    assert copy.state() == state


def test_chapters_alone_can_be_tangled(copy, tmp_path):
    copy.run("prefix", "1", str(tmp_path / "beginning"))
    assert package(tmp_path / "beginning") == {"words.py": WORDS.encode()}


# A module told in three chapters; the second assembles it. LATER stands for what a chapter has besides.
SPREAD = {
    "01-first": "```python #first\nfirst = 1\n```\n\n```python #method\ndef method(self):\n    return 2\n```\n",
    "02-class": "```python #whole\nclass Whole:\n    size = first\n```\n\n"
                '``` {.python file=tinyllm/model.py}\n"""A model."""\n\n\n<<last>>\n\n\n<<whole>>\n\n    <<method>>\n\n\n'
                "<<first>>\n\n\nend = 0\n```\n",
    "03-last": "```python #last\nlast = 3\n```\n",
    "04-other": '```python #other\nother = 4\n```\n\n``` {.python file=tinyllm/other.py}\n"""Other."""\n<<other>>\n```\n',
}


@pytest.mark.parametrize("k, model", [
    (1, '"""A model."""\n\n\nfirst = 1\n\n\nend = 0\n'),
    (2, '"""A model."""\n\n\nclass Whole:\n    size = first\n\n    def method(self):\n        return 2\n\n\nfirst = 1\n\n\nend = 0\n'),
    (3, '"""A model."""\n\n\nlast = 3\n\n\nclass Whole:\n    size = first\n\n    def method(self):\n        return 2\n\n\nfirst = 1\n'
        '\n\nend = 0\n'),
])
def test_a_beginning_holds_the_pieces_told_so_far_in_the_order_of_the_whole_book(copy, tmp_path, k, model):
    for chapter in (copy.one, copy.two):
        chapter.unlink()
    for name, text in SPREAD.items():
        (copy.root / f"docs/{name}.md").write_text(HEAD + text, "utf-8")
    copy.run("prefix", str(k), str(tmp_path / "beginning"))
    assert {name: text.decode() for name, text in package(tmp_path / "beginning").items()} == {"model.py": model}


def test_a_beginning_that_cannot_stand_alone_is_refused_with_the_line(copy, tmp_path):
    copy.edit(copy.two, "class Countable(list):\n    \"\"\"Counts itself.\"\"\"\n\n    <<count>>\n\n    size = 0\n",
              "<<rest>>\nif True:\n    <<count>>\n")
    copy.two.rename(copy.root / "docs/03-lists.md")
    (copy.root / "docs/02-rest.md").write_text(HEAD + "```python #rest\nrest = 0\n```\n", "utf-8")
    error = copy.run("prefix", "2", str(tmp_path / "beginning"), fails=True)
    assert error.startswith("docs/03-lists.md:28: without the pieces that come in later chapters, tinyllm/lists.py")


def test_a_beginning_needs_the_rest_of_the_book_to_be_right(copy, tmp_path):
    copy.edit(copy.two, "<<count>>", "<<cuont>>")
    assert "no piece is called 'cuont'" in copy.run("prefix", "1", str(tmp_path / "beginning"), fails=True)


def test_windows_line_ends_in_the_package_are_no_edit(copy):
    copy.words.write_bytes(WORDS.replace("\n", "\r\n").encode())
    copy.run("tangle")
    assert copy.words.read_bytes() == WORDS.encode()


# ------------------------------------------------------------------- stitch

def test_stitch_changes_exactly_that_line_twice_in_a_row(copy):
    record = copy.root / "tangled.sha256"
    for old, new in (("hello {", "good morning {"), ("good morning {", "good evening {")):
        before, two, digest = copy.one.read_text("utf-8"), copy.two.read_bytes(), record.read_bytes()
        copy.edit(copy.words, old, new)
        code = copy.words.read_bytes()
        copy.run("stitch")
        assert copy.one.read_text("utf-8") == before.replace(old, new)
        assert copy.two.read_bytes() == two and copy.words.read_bytes() == code
        assert record.read_bytes() != digest
        copy.run("check")


def test_stitch_on_the_real_chapters(tmp_path):
    copy = copy_of_repository(tmp_path, "docs", "tinyllm", "entangled.toml", "tangled.sha256")
    before = {path: path.read_bytes() for path in (tmp_path / "docs").glob("*.md")}
    edited = 0
    for path in sorted((tmp_path / "tinyllm").glob("*.py")):
        lines = path.read_text("utf-8").split("\n")
        for i, line in enumerate(lines):
            if re.match(r"\s+return \w", line):         # one line in each file that has such a line
                lines[i] += "    # edited"
                edited += 1
                break
        path.write_bytes("\n".join(lines).encode())
    code = package(tmp_path)
    copy.run("stitch")
    assert edited > 3 and package(tmp_path) == code
    changed = [(old, new) for path, text in before.items()
               for old, new in zip(text.split(b"\n"), path.read_bytes().split(b"\n"), strict=True) if old != new]
    assert len(changed) == edited and all(new == old + b"    # edited" for old, new in changed)


@pytest.mark.parametrize("file, old, new, chapter_old, chapter_new", [
    # inside a piece: a line more, a line less, two lines for one
    ("words", "    Grüße", "    Hi!\n    Grüße", "    Grüße", "    Hi!\n    Grüße"),
    ("words", "\n    Grüße, 世界", "", "\n    Grüße, 世界", ""),
    ("words", 'return f"bye {name}"', 'bye = name\n    return bye', 'return f"bye {name}"', 'bye = name\n    return bye'),
    # at the borders of pieces
    ("words", 'hello {name}"\n', 'hello {name}"\n    # the end\n', 'hello {name}"\n', 'hello {name}"\n    # the end\n'),
    ("words", "def part(", "@cache\ndef part(", "def part(", "@cache\ndef part("),
    ("words", "\n\n\ndef part", "\n\n\n\ndef part", "\n\n\n<<part>>", "\n\n\n\n<<part>>"),
    ("words", "\n\n\ndef part", "\n\ndef part", "\n\n\n<<part>>", "\n\n<<part>>"),
    # the file's first and last lines
    ("words", '"""Words."""', '"""Good words."""', '"""Words."""', '"""Good words."""'),
    ("words", '"""Words."""', '# Words\n"""Words."""', '"""Words."""', '# Words\n"""Words."""'),
    ("words", 'bye {name}"\n', 'bye {name}"\n    # end', 'bye {name}"\n', 'bye {name}"\n    # end\n'),
    # through an indented reference
    ("lists", "        total = 0\n", "        total = 1\n", "    total = 0\n", "    total = 1\n"),
    ("lists", "        total = 0\n\n", "        total = 0\n        pass\n\n", "    total = 0\n\n", "    total = 0\n    pass\n\n"),
    ("lists", "    size = 0", "    size = 1", "    size = 0", "    size = 1"),
])
def test_stitch_carries_each_kind_of_edit(copy, file, old, new, chapter_old, chapter_new):
    path, chapter = (copy.words, copy.one) if file == "words" else (copy.lists, copy.two)
    before = chapter.read_text("utf-8")
    assert before.count(chapter_old) == 1
    copy.edit(path, old, new)
    code = path.read_bytes()
    copy.run("stitch")
    assert chapter.read_text("utf-8") == before.replace(chapter_old, chapter_new)
    assert path.read_bytes() == code.rstrip(b"\n") + b"\n"
    copy.run("check")


def test_stitch_takes_edits_of_several_files_and_tangles_the_others(copy):
    copy.edit(copy.words, "hello {", "good morning {")
    copy.edit(copy.two, "total = 0", "total = 1")      # another file: no conflict
    copy.run("stitch")
    assert "good morning {" in copy.one.read_text("utf-8")
    assert "total = 1" in copy.lists.read_text("utf-8") and "total = 1" in copy.two.read_text("utf-8")
    copy.run("check")


def test_stitch_next_to_edited_prose(copy):
    copy.edit(copy.one, "First the greeting.", "First,\n\nthe\ngreeting.")
    copy.edit(copy.words, "hello {", "good morning {")
    copy.run("stitch")
    assert copy.one.read_text("utf-8") == ONE.replace("First the greeting.", "First,\n\nthe\ngreeting.").replace(
        "hello {", "good morning {")


def test_stitch_with_windows_line_ends(copy):
    copy.one.write_bytes(ONE.replace("\n", "\r\n").encode())
    copy.words.write_bytes(WORDS.replace("hello {", "good morning {").replace("\n", "\r\n").encode())
    copy.run("stitch")
    assert copy.one.read_bytes() == ONE.replace("hello {", "good morning {").replace("\n", "\r\n").encode()
    assert copy.words.read_bytes() == WORDS.replace("hello {", "good morning {").encode()


def test_stitch_with_nothing_to_do(copy):
    state = copy.state()
    assert "nothing to stitch" in copy.run("stitch")
    assert copy.state() == state


@pytest.mark.parametrize("chapter", ['hello {', 'bye {'], ids=["the same line", "another line of the file"])
def test_edits_on_both_sides_stop_and_lose_nothing(copy, chapter):
    copy.edit(copy.one, chapter, "salut {")
    copy.edit(copy.words, "hello {", "good morning {")
    state = copy.state()
    for command in ("tangle", "check", "stitch"):
        error = copy.run(command, fails=True)
        assert re.search(r"tinyllm/words.py:\d+ and docs/01-words.md:\d+", error) and "both" in error
        assert copy.state() == state


def test_both_sides_edited_to_say_the_same_is_no_conflict(copy):
    copy.edit(copy.one, "hello {", "good morning {")
    copy.edit(copy.words, "hello {", "good morning {")
    copy.run("tangle")
    copy.run("check")


def test_a_merge_that_left_both_digests_in_the_record(copy):
    record = copy.root / "tangled.sha256"
    ours = record.read_text()
    copy.edit(copy.one, "hello {", "good morning {")
    copy.run("tangle")
    record.write_text(f"<<<<<<< ours\n{ours}=======\n{record.read_text()}>>>>>>> theirs\n")
    copy.run("tangle")
    copy.run("check")
    assert "<<<<" not in record.read_text()


@pytest.mark.parametrize("old, new, says", [
    (re.search(r"def part.*", WORDS, re.S)[0], "", "docs/01-words.md:27"),                  # a whole piece gone
    ('hello {name}"\n\n\ndef part(name):', 'hi {name}"\ndef p(name):', "over the border"),
    ("    return", "  return(", "tinyllm/words.py:8: syntax error"),
])
def test_what_cannot_be_stitched_is_refused_and_nothing_changes(copy, old, new, says):
    text = copy.words.read_text("utf-8")
    copy.words.write_text(text.replace(old, new, 1), "utf-8")
    state = copy.state()
    assert says in copy.run("stitch", fails=True)
    assert copy.state() == state


# -------------------------------------------------------------- interruptions

WRITES = {"os.rename", "os.remove", "os.chmod", "os.mkdir", "tempfile.mkstemp"}     # and open, but for reading


def run_and_interrupt(copy, command, signal_number, step):
    """Run a command in a process that sends itself a signal before the step-th change it makes to the
    book's files, whatever that is: Python announces each. Returns the exit status, -9 for a killed process."""
    steps = itertools.count()

    def watch(event, arguments):
        writes = event in WRITES or event == "open" and isinstance(arguments[2], int) and arguments[2] & (os.O_WRONLY | os.O_RDWR)
        if writes and str(copy.root) in str(arguments) and next(steps) == step:
            if event == "open" and arguments[2] & os.O_TRUNC and os.path.exists(arguments[0]):
                os.truncate(arguments[0], 0)    # as if the signal came right after opening
            os.kill(os.getpid(), signal_number)

    child = os.fork()
    if child == 0:
        status = 99
        try:
            with open(os.devnull, "w") as nowhere:
                sys.addaudithook(watch)
                with redirect_stdout(nowhere), redirect_stderr(nowhere):
                    status = main([command], copy.root)
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@pytest.mark.skipif(not hasattr(os, "fork"), reason="interrupts a fork of this process")
@pytest.mark.parametrize("number", ["SIGKILL", "SIGINT", "SIGTERM"])
@pytest.mark.parametrize("command", ["stitch", "tangle"])
def test_interrupted_at_any_step_no_side_is_lost_and_the_next_run_repairs(copy, tmp_path, command, number):
    """Before each single change of a file in turn; two chapters and two modules are to change."""
    number = getattr(signal, number)
    words, lists = (copy.words, copy.lists) if command == "stitch" else (copy.one, copy.two)
    copy.edit(words, "hello {", "good morning {")
    copy.edit(lists, "total = 0", "total = 1")
    before, done = copy.state(), Copy(shutil.copytree(copy.root, tmp_path / "done"))
    done.run(command)
    after = done.state()
    assert sum(before[path] != after[path] for path in before) == 3     # two files and the record

    for step in itertools.count():
        here = Copy(shutil.copytree(copy.root, tmp_path / f"interrupted {step}"))
        status = run_and_interrupt(here, command, number, step)
        state = {path: text for path, text in here.state().items() if path.suffix != ".new"}
        assert state.keys() == before.keys()
        assert all(text in (before[path], after[path]) for path, text in state.items()), "a file is neither old nor new"
        if number == signal.SIGINT:
            assert state == here.state(), "half a file was left behind"
        if status == 0:
            break
        assert status == (130 if number == signal.SIGINT else -number)
        here.run(command if state != after else "check")
        assert {path: text for path, text in here.state().items() if path.suffix != ".new"} == after
        here.run("check")
    assert step > 8 and state == after


# ------------------------------------------------- faults of a chapter's author

@pytest.mark.parametrize("old, new, says", [
    ("<<part>>", "<<prat>>", "docs/01-words.md:42: no piece is called 'prat'. Did you mean <<part>>?"),
    ("<<part>>\n", "<<part>>\n<<the part>>\n", "docs/01-words.md:43: no piece is called 'the part'"),
    ("python #part", "python #greet", "docs/01-words.md:27: the piece 'greet' exists already at docs/01-words.md:12"),
    ("\n\n<<part>>", "", "docs/01-words.md:27: the piece 'part' is in no file"),
    ("file=tinyllm/words.py", "file=tinyllm/lists.py",
     "docs/02-lists.md:23: tinyllm/lists.py is assembled already at docs/01-words.md:36"),
    ("file=tinyllm/words.py", "file=words.py", "docs/01-words.md:36: words.py is outside the package"),
    ("file=tinyllm/words.py", "files=tinyllm/words.py", "docs/01-words.md:36: a fence"),
    ("```python #part", "```python # part", "docs/01-words.md:27: a fence"),
    ("```python #part", '```python #part tags=["x"]', "docs/01-words.md:27: a fence"),
    ("```python tags", "```bash tags", "docs/01-words.md:21: a fence ```bash"),
    ("```python tags", "```sh tags", "docs/01-words.md:21: a fence ```sh"),
    ("```python tags", "```tags", "docs/01-words.md:21: a fence"),
    ('greet("you")', '```python #inner', "docs/01-words.md:22: a fence inside the fence of line 21"),
    ("<<part>>\n```\n", "<<part>>\n", "docs/01-words.md:36: this fence is never closed"),
    ("def part(name):", "def part(name:", "docs/01-words.md:28: syntax error in the piece 'part'"),
    ("def part(name):", "<<greet>>\ndef part(name):", "docs/01-words.md:28: <<greet>> inside the piece 'part'"),
    ('"""Words."""', '"""Words.""', "docs/01-words.md:"),
    (HEAD, "", "docs/01-words.md:1: no front matter"),
    ("jupyter:\n  kernelspec:\n    display_name: Python 3\n    language: python\n    name: python3\n",
     "kernelspec:\n  display_name: Python 3\n  language: python\n  name: python3\n",
     "docs/01-words.md:3: kernelspec must stand under jupyter:"),
    ("    name: python3\n", "", "docs/01-words.md:1: the front matter lacks 'name: python3'"),
    ("Grüße", "Gr\udcfc\udcdfe", "docs/01-words.md:16: not UTF-8"),
    ("---\ntitle", "\ufeff---\ntitle", "docs/01-words.md:1: starts with a byte order mark"),
    ("And its twin:\n", "And its twin:\r\n", "docs/01-words.md: has both Windows and Unix line ends"),
    ("世界", "世\r界", "docs/01-words.md:16"),
    ("世界", "世\u2028界", "docs/01-words.md:16"),
    ("    Grüße", "# ~/~ end\n    Grüße", "docs/01-words.md:16"),
], ids=[
    "unknown reference", "unknown reference with a space", "duplicated piece name", "piece in no file",
    "two assemblies for one file", "file outside the package", "misspelt assembly",
    "space before the piece's name", "options on a piece", "bash fence", "sh fence", "unknown fence",
    "fence within a fence", "fence never closed", "syntax error in a piece", "reference inside a piece",
    "syntax error in an assembly", "missing front matter", "kernelspec not under jupyter",
    "front matter without the kernel's name", "not UTF-8", "byte order mark", "two kinds of line ends",
    "carriage return", "line separator", "looks like a marker"])
def test_a_chapters_fault_stops_with_file_and_line_and_changes_nothing(copy, old, new, says):
    text = copy.one.read_text("utf-8")
    assert text.count(old) == 1
    copy.one.write_bytes(text.replace(old, new).encode("utf-8", "surrogateescape"))
    state = copy.state()
    for command in ("tangle", "check", "stitch"):
        assert copy.run(command, fails=True).startswith(says)
    assert copy.state() == state


@pytest.mark.parametrize("command", ["tangle", "check", "stitch"])
def test_a_chapter_in_a_folder_is_refused_with_its_path(copy, command):
    (copy.root / "docs/part").mkdir()
    (copy.root / "docs/part/notes.md").write_text("A plain page may stand anywhere.\n")
    copy.run("check")
    copy.two.rename(copy.root / "docs/part/02-lists.md")
    state = copy.state()
    assert copy.run(command, fails=True).startswith("docs/part/02-lists.md:1: a chapter in a folder")
    assert copy.state() == state


def test_what_editors_and_systems_leave_behind_is_left_alone(copy):
    (copy.root / "docs/.#01-words.md").symlink_to("somebody@somewhere.1234")
    for name in ("._01-words.md", ".01-words.md.swp", "01-words.md~", "#01-words.md#", "01-words.ipynb"):
        (copy.root / "docs" / name).write_bytes(b"\0\xff" + ONE.encode())
    copy.run("check")
    copy.edit(copy.one, "hello {", "good morning {")
    copy.run("tangle")
    copy.edit(copy.words, "good morning {", "good evening {")
    copy.run("stitch")
    assert "good evening {" in copy.one.read_text("utf-8")


def test_the_second_of_two_at_once_waits_and_says_so(copy, tmp_path):
    with FileLock(copy.root / ".cache/chapters.lock"):
        code = f"import sys; sys.path.insert(0, {str(ROOT)!r}); from pathlib import Path\n" \
               f"from tools.chapters.__main__ import main; sys.exit(main(['check'], Path({str(copy.root)!r})))"
        second = subprocess.Popen([sys.executable, "-c", code], cwd=tmp_path, stderr=subprocess.PIPE, text=True)
        assert second.stderr.readline() == "waiting for another tangling or stitching of this book to end …\n"
    assert second.wait() == 0 and second.stderr.read() == ""


def test_works_as_a_program_from_anywhere(copy, tmp_path):
    """As make runs it: a process of its own, the path with spaces, an ASCII-only locale."""
    shutil.copytree(ROOT / "tools", copy.root / "tools", ignore=shutil.ignore_patterns("__pycache__"))
    copy.edit(copy.words, "hello {", "good morning {")
    for command, status in (("check", 1), ("stitch", 0), ("check", 0)):
        done = subprocess.run([sys.executable, "-m", "tools.chapters", command], cwd=tmp_path,
                              env=os.environ | {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0",
                                                "PYTHONPATH": str(copy.root)},
                              capture_output=True)
        assert done.returncode == status and b"Traceback" not in done.stderr, done.stderr.decode()
    assert "good morning {" in copy.one.read_text("utf-8")


def test_entangled_failing_quietly_is_noticed(copy, monkeypatch):
    monkeypatch.setattr(tangle, "call_entangled", ENTANGLED)
    copy.edit(copy.root / "entangled.toml", "docs/*.md", "elsewhere/*.md")
    copy.edit(copy.one, "hello {", "good morning {")
    state = copy.state()
    assert "Entangled" in copy.run("tangle", fails=True)
    assert copy.state() == state
