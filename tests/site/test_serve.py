"""`make serve`: pages at once, marked while their outputs are being renewed, with every fault on the page.

One server for a book of two small chapters. The second chapter waits for a file before it prints, so that the
tests see the server while a chapter runs; they wait for its next build as a browser does, not for a time.
"""

import html
import os
import re
import shutil
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from small_book import Book

pytestmark = [pytest.mark.book, pytest.mark.slow]

ROOT = Path(__file__).resolve().parents[2]
TWO = """\
```python
import os, time
from tinyllm.mod import answer
while not os.path.exists(GATE):
    time.sleep(0.01)
print("the answer is", answer())
```
"""
MADE, RENEWED = "This page has no outputs yet", "are being renewed"
NOT_TANGLED, FAILED = "could not be tangled", "This chapter failed"


class Server:
    def __init__(self, book, gate):
        self.book, self.gate = book, gate
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.address = f"127.0.0.1:{probe.getsockname()[1]}"
        self.process = self.start()
        self.said = ""
        for line in self.process.stdout:
            self.said += line
            if "Serving on" in line:
                return
        raise AssertionError(self.said)

    def start(self):
        return subprocess.Popen([sys.executable, "-m", "mkdocs", "serve", "-a", self.address], cwd=self.book.folder,
                                env=os.environ | {"NO_MKDOCS_2_WARNING": "1", "NO_COLOR": "1", "PYTHONUNBUFFERED": "1"},
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def get(self, address):
        with urllib.request.urlopen(f"http://{self.address}/{address}", timeout=90) as answer:
            return answer.read().decode()

    def page(self, name, shows="", without=None, after=None):
        """Edit one place of the book, if `after` names it; then wait for builds, as a browser does, until the
        page shows what is wanted, without what is not."""
        page = self.get(name + "/")
        if after:
            self.book.edit(*after)
            self.wait_for_the_build_after(page)
        for _ in range(4):
            page = self.get(name + "/")
            text = html.unescape(page)
            if re.search(shows, text) and not (without and without in text):
                return page
            self.wait_for_the_build_after(page)
        raise AssertionError(f"{name} never showed {shows} without {without}:\n{page}")

    def wait_for_the_build_after(self, page):
        epoch = re.search(r"livereload\((\d+),", page)[1]
        self.get(f"livereload/{epoch}/1")


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("served")
    gate = folder / "gate"
    book = Book(folder / "Bücher für alle 书")
    book.folder.mkdir()
    book.begin()
    shutil.copy(ROOT / "entangled.toml", book.folder)
    book.write("tinyllm/__init__.py", "")
    book.write("docs/index.md", '---\ntitle: Cover\ndescription: A book.\n---\n# Cover\n')
    (book.folder / "tinyllm/mod.py").unlink()
    (book.folder / "tinyllm/__init__.py").unlink()
    book.edit("docs/01-one.md", "``` {.python file=tinyllm/mod.py}", "``` {.python file=tinyllm/__init__.py}\n```\n\n"
              "``` {.python file=tinyllm/mod.py}")
    book.chapter("02-two", TWO.replace("GATE", repr(str(gate))), "01-one")
    server = Server(book, gate)
    yield server
    server.process.terminate()
    server.process.wait()


def test_the_server_answers_while_chapters_run(server):
    page = server.page("02-two")
    assert MADE in page and RENEWED not in page and "the answer is 42" not in page
    server.gate.touch()
    server.page("02-two", "the answer is 42", without=MADE)


def test_a_changed_piece_shows_the_old_outputs_until_the_new_ones_are_there(server):
    server.page("02-two", "the answer is 42")
    server.gate.unlink()
    page = server.page("02-two", RENEWED, after=("docs/01-one.md", "41 + 1", "41 + 2"))
    assert "the answer is 42" in page
    server.gate.touch()
    server.page("02-two", "the answer is 43", without=RENEWED)


def test_a_fault_of_tangling_is_on_every_page_with_file_and_line(server):
    fault = r"docs/01-one\.md:\d+: no piece is called 'anwser'\. Did you mean <<answer>>\?"
    server.page("01-one", fault, after=("docs/01-one.md", "<<answer>>", "<<anwser>>"))
    assert NOT_TANGLED in server.page("02-two", fault) and NOT_TANGLED in server.page("package", fault)
    server.page("01-one", without=NOT_TANGLED, after=("docs/01-one.md", "<<anwser>>", "<<answer>>"))
    assert NOT_TANGLED not in server.page("02-two")


def test_a_fault_of_a_cell_is_on_its_page_with_file_and_line(server):
    server.page("02-two", r"docs/02-two\.md:23 \(code cell 1\): ValueError: no",
                after=("docs/02-two.md", 'print("the', 'raise ValueError("no")\nprint("the'))
    assert FAILED in server.page("02-two") and FAILED not in server.page("01-one")
    server.page("02-two", "the answer is 43", without=FAILED, after=("docs/02-two.md", 'raise ValueError("no")\n', ""))


def test_a_busy_port_is_one_line(server):
    second = server.start()
    said, _ = second.communicate()
    assert second.returncode != 0 and "Traceback" not in said
    lines = [line for line in said.splitlines() if line and "Building documentation" not in line]
    assert len(lines) == 1 and server.address in lines[0] and "another port" in lines[0].lower(), said
