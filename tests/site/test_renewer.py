"""In which order the server runs chapters, and which it stops: with chapters that only wait to be told to end."""

import queue
import threading
from contextlib import nullcontext
from pathlib import Path

import pytest
from mkdocs.exceptions import BuildError

from tools.site import serve
from tools.site.kernel import Cancelled
from tools.site.schedule import Job

pytestmark = pytest.mark.book

SOURCES = [Path(f"{n:02}.md") for n in range(1, 5)]


class Run:
    def __init__(self, page, source):
        self.source, self.cancelled, self.ended, self.seconds = source, False, threading.Event(), 0.0

    def cancel(self):
        self.cancelled = True
        self.ended.set()


class World:
    """Chapters whose state is a word, and what the server did to them."""

    def __init__(self):
        self.keys = {source.name: "first" for source in SOURCES}
        self.book, self.stale, self.measuring, self.faults = "book", set(), set(), {}
        self.begun, self.rings, self.runs = queue.Queue(), queue.Queue(), {}
        self.said = queue.Queue()                   # when nothing is left to run

    def note(self, text, *values):
        if "chapters" in text:
            self.said.put(text % values)

    def find_stale(self, sources):
        return [Job(source, source.name in self.measuring, None, "") for source in sources if source.name in self.stale]

    def execute(self, job, run):
        self.runs[job.name] = run
        self.begun.put(job.name)
        run.ended.wait()
        if run.cancelled:
            raise Cancelled
        if job.name in self.faults:
            raise BuildError(self.faults[job.name])
        self.stale.discard(job.name)

    def next(self):
        return self.begun.get(timeout=60)

    def end(self, name):
        self.runs[name].ended.set()
        self.rings.get(timeout=60)


@pytest.fixture
def world(monkeypatch):
    world = World()
    monkeypatch.setattr(serve, "Run", Run)
    monkeypatch.setattr(serve.notebook, "read", lambda source: source)
    monkeypatch.setattr(serve.store, "key", lambda page: world.keys[page.name])
    monkeypatch.setattr(serve.reads, "digest", lambda key: world.book)
    monkeypatch.setattr(serve.schedule, "stale", world.find_stale)
    monkeypatch.setattr(serve.schedule, "execute", world.execute)
    monkeypatch.setattr(serve.schedule, "one_at_a_time", nullcontext)
    monkeypatch.setattr(serve.schedule, "WORKERS", 1)
    monkeypatch.setattr(serve.log, "info", world.note)
    monkeypatch.setattr(serve.log, "error", world.note)
    renewer = serve.Renewer(lambda: world.rings.put(True))
    world.update = lambda: renewer.update(SOURCES)
    world.renewer = renewer
    yield world
    renewer.stop()


def test_all_that_is_out_of_date_runs_in_the_order_of_the_book(world):
    world.stale = {"01.md", "02.md", "04.md"}
    world.update()
    for name in ("01.md", "02.md", "04.md"):
        assert world.next() == name
        assert world.renewer.state(name)[0] == "running"
        world.end(name)
    assert world.renewer.state("04.md") == ("", "") and world.begun.empty()
    assert world.said.get(timeout=60) == "all chapters are up to date"


def test_the_edited_chapter_runs_first_and_what_runs_before_it_is_stopped(world):
    world.stale = {"01.md", "02.md", "03.md"}
    world.update()
    assert world.next() == "01.md" and world.renewer.state("03.md") == ("waiting", "after 2 others")
    world.keys["03.md"] = "edited"
    world.update()
    assert world.runs["01.md"].cancelled
    assert world.next() == "03.md"
    world.update()                                  # prose was saved: nothing changes
    assert not world.runs["03.md"].cancelled
    world.end("03.md")
    assert world.next() == "01.md"


def test_a_chapter_that_was_stopped_is_not_waited_for(world, monkeypatch):
    monkeypatch.setattr(Run, "cancel", lambda run: setattr(run, "cancelled", True))     # it takes its time
    world.stale = {"01.md", "02.md", "03.md"}
    world.update()
    assert world.next() == "01.md"
    world.keys["03.md"] = "edited"
    world.update()
    assert world.renewer.state("03.md") == ("waiting", "next")
    assert world.renewer.state("01.md") == ("waiting", "after 1 other")
    world.runs["01.md"].ended.set()


def test_a_chapter_that_nothing_was_done_to_goes_on(world):
    world.stale = {"01.md", "02.md"}
    world.update()
    assert world.next() == "01.md"
    world.update()
    assert not world.runs["01.md"].cancelled and world.begun.empty()


@pytest.mark.parametrize("change", ["code", "package", "up to date"])
def test_a_chapter_whose_outputs_would_be_of_yesterday_is_stopped(world, change):
    world.stale = {"01.md"}
    world.update()
    assert world.next() == "01.md"
    if change == "code":
        world.keys["01.md"] = "edited"
    elif change == "package":
        world.book = "changed"
    else:
        world.stale = set()                         # the edit was taken back
    first = world.runs["01.md"]
    world.update()
    assert first.cancelled
    if change != "up to date":
        assert world.next() == "01.md" and world.runs["01.md"] is not first


def test_a_chapter_that_failed_waits_for_a_change(world):
    world.stale = {"01.md", "02.md"}
    world.faults = {"01.md": "docs/01.md:3: no"}
    world.update()
    assert world.next() == "01.md"
    world.end("01.md")
    assert world.next() == "02.md" and world.renewer.state("01.md") == ("failed", "docs/01.md:3: no")
    world.update()
    world.end("02.md")
    assert world.begun.empty()
    assert world.said.get(timeout=60) == "1 of the chapters failed: 01.md"
    world.book, world.faults = "repaired", {}
    world.update()
    assert world.next() == "01.md" and world.renewer.state("01.md")[0] == "running"


def test_chapters_that_measure_run_alone_and_last(world, monkeypatch):
    monkeypatch.setattr(serve.schedule, "WORKERS", 2)
    world.stale, world.measuring = {"01.md", "02.md", "03.md", "04.md"}, {"01.md", "03.md"}
    world.update()
    assert {world.next(), world.next()} == {"02.md", "04.md"}
    world.end("02.md")
    assert world.begun.empty()
    world.end("04.md")
    assert world.next() == "01.md" and world.begun.empty()
    world.end("01.md")
    assert world.next() == "03.md"
