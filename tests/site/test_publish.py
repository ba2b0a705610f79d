"""The site is put in its place whole or not at all, whatever interrupts its build, and by one build at a time."""

import itertools
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from filelock import FileLock

from small_book import Book

from tools.site import publish

pytestmark = pytest.mark.book

ROOT = Path(__file__).resolve().parents[2]
WRITES = {"os.rename", "os.remove", "os.rmdir", "os.mkdir"}     # and open, but for reading


class Place:
    """A book whose site is three files that say what the chapter says."""

    def __init__(self, root):
        self.root = root
        self.builds = 0

    def say(self, text):
        (self.root / "docs").mkdir(parents=True, exist_ok=True)
        (self.root / "docs/index.md").write_text(text)

    def render(self, root, new):
        self.builds += 1
        text = (root / "docs/index.md").read_text()
        for name in ("index.html", "01-one/index.html", "01-one/figure.svg"):
            (new / name).parent.mkdir(parents=True, exist_ok=True)
            (new / name).write_text(text)

    def build(self):
        publish.build(self.root, self.render)

    def site(self, name="site"):
        folder = self.root / name
        return {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*")
                if path.is_file() and path.name != publish.LIST}

    def whole(self, text):
        return self.site() == dict.fromkeys(("index.html", "01-one/index.html", "01-one/figure.svg"), text)


@pytest.fixture
def place(tmp_path):
    place = Place(tmp_path / "Bücher für alle 书")
    place.say("old")
    place.build()
    assert place.whole("old") and place.builds == 1
    return place


def test_nothing_is_done_when_nothing_changed(place):
    (place.root / "docs/index.md").touch()
    place.build()
    assert place.builds == 1
    place.say("new")
    place.build()
    assert place.whole("new") and place.builds == 2


def test_addresses_of_the_site_are_part_of_it(place, monkeypatch):
    monkeypatch.setenv("SITE_URL", "https://example.org/")
    place.build()
    assert place.builds == 2


@pytest.mark.parametrize("harm", [
    lambda site: (site / "01-one/figure.svg").unlink(),
    lambda site: (site / "index.html").write_text(""),
    lambda site: shutil.rmtree(site / "01-one"),
    lambda site: shutil.rmtree(site),
    lambda site: (site / publish.LIST).unlink(),
    lambda site: (site / publish.LIST).write_text("{"),
    lambda site: (site / publish.LIST).write_text("[]"),
])
def test_a_site_that_is_not_whole_is_noticed_and_built_anew(place, harm):
    harm(place.root / "site")
    place.build()
    assert place.builds == 2 and place.whole("old")


def test_a_build_that_fails_leaves_the_old_site(place):
    def fail(root, new):
        place.render(root, new)
        sys.exit(3)

    place.say("new")
    with pytest.raises(SystemExit) as end:
        publish.build(place.root, fail)
    assert end.value.code == 3 and place.whole("old")
    place.build()
    assert place.whole("new")


def test_what_is_edited_during_a_build_is_built_by_the_next(place):
    def render(root, new):
        place.render(root, new)
        place.say("edited meanwhile")

    place.say("new")
    publish.build(place.root, render)
    assert place.whole("new")
    place.build()
    assert place.whole("edited meanwhile")


def build_and_interrupt(place, number, step):
    """Build in a process that sends itself a signal before the step-th change of a file; its exit status."""
    steps = itertools.count()

    def watch(event, arguments):
        writes = event in WRITES or event == "open" and isinstance(arguments[2], int) and arguments[2] & (os.O_WRONLY | os.O_RDWR)
        if writes and next(steps) == step:
            os.kill(os.getpid(), number)

    child = os.fork()
    if child == 0:
        status = 99
        try:
            sys.addaudithook(watch)
            place.build()
            status = 0
        except KeyboardInterrupt:
            status = 130
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@pytest.mark.skipif(not hasattr(os, "fork"), reason="interrupts a fork of this process")
@pytest.mark.parametrize("number", ["SIGKILL", "SIGINT"])
def test_interrupted_at_any_step_a_whole_site_is_there_and_the_next_run_repairs(place, tmp_path, number):
    number = getattr(signal, number)
    place.say("new")
    for step in itertools.count():
        here = Place(shutil.copytree(place.root, tmp_path / f"interrupted {step}"))
        status = build_and_interrupt(here, number, step)
        if status == 0:
            break
        assert status == (130 if number == signal.SIGINT else -number)
        between = not (here.root / "site").exists()         # of two renames: the old one waits beside
        assert here.whole("old") or here.whole("new") or between and here.site("site.old")["index.html"] == "old"
        here.build()
        assert here.whole("new")
        here.say("newer")
        here.build()
        assert here.whole("newer") and sorted(path.name for path in here.root.iterdir()) == [".cache", "docs", "site"]
    assert step > 15 and here.whole("new")


def test_the_second_build_waits_for_the_first_and_says_so(place):
    place.say("new")
    code = f"import sys; sys.path.insert(0, {str(ROOT)!r}); from pathlib import Path; from tools.site import publish\n" \
           "publish.build(Path('.'), lambda root, new: (new.mkdir(), (new / 'index.html').write_text('second')))\n"
    with FileLock(place.root / ".cache/site.lock"):
        second = subprocess.Popen([sys.executable, "-c", code], cwd=place.root, stderr=subprocess.PIPE, text=True)
        assert second.stderr.readline() == "another build of this book is running: waiting for it …\n"
        assert place.whole("old")
    assert second.wait() == 0 and second.stderr.read() == ""
    assert place.site() == {"index.html": "second"}


WAITS = """\
```python
import time
open(BEGUN, "w").close()
while True:
    time.sleep(0.01)
```
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="has no SIGKILL")
def test_nothing_of_a_build_that_was_killed_goes_on(tmp_path):
    book = Book(tmp_path / "book")
    book.begin()
    begun = tmp_path / "begun"
    book.chapter("02-two", WAITS.replace("BEGUN", repr(str(begun))), "01-one")
    build = subprocess.Popen([sys.executable, "-m", "tools.site"], cwd=book.folder,
                             stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_for(begun.exists)
        children = psutil.Process(build.pid).children(recursive=True)
        assert children
    finally:
        build.kill()
        build.wait()
    wait_for(lambda: not any(is_alive(child) for child in children))
    assert not (book.folder / "site").exists()


def is_alive(process):
    return process.is_running() and process.status() != psutil.STATUS_ZOMBIE


def wait_for(condition, seconds=60):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it never came to that"
        time.sleep(0.05)
