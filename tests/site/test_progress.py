"""The bar says how far a build is and how long it takes; without a terminal there are only plain lines."""

import io
from pathlib import Path

import pytest

from tools.site import progress
from tools.site.schedule import Job

pytestmark = pytest.mark.book

ONE, TWO, CLOCK = (Job(Path(f"{name}.md"), name == "clock", seconds, "its code changed")
                   for name, seconds in (("one", 10.0), ("two", 30.0), ("clock", 100.0)))
NEW = Job(Path("new.md"), False, None, "for the first time")


def test_the_estimate():
    left = progress.seconds_left
    assert left([ONE, TWO, CLOCK], {}, {}, 1, 0) == 140
    assert left([ONE, TWO, CLOCK], {}, {}, 2, 0) == 120, "what measures runs alone"
    assert left([TWO], {ONE: 1000.0}, {}, 1, 1004) == 36, "what has run for 4 of its 10 seconds"
    assert left([], {ONE: 1000.0}, {}, 1, 1100) == 0, "longer than last time: any moment now"
    assert left([ONE, TWO, NEW], {}, {}, 1, 0) == 60, "what is not known takes as long as the mean"
    assert left([NEW], {}, {ONE: 8.0}, 1, 0) == 8
    assert left([NEW], {}, {}, 1, 0) is None


def test_the_bar_counts_all_pages(monkeypatch):
    shown = io.StringIO()
    monkeypatch.setattr(progress, "tqdm", lambda **options: tqdm(file=shown, **options | {"dynamic_ncols": False, "ncols": 90}))
    tqdm = __import__("tqdm").tqdm
    with progress.Bar(20, [ONE, NEW], 1) as bar:
        assert "18/20 pages" in shown.getvalue()
        bar.start(ONE)
        assert "one, about 20 s left" in shown.getvalue()
        bar.done(ONE)
        assert "19/20 pages" in shown.getvalue()
        bar.start(NEW)
        bar.done(NEW)
        assert "20/20 pages" in shown.getvalue()


def test_plain_lines(caplog):
    caplog.set_level("INFO", "mkdocs.chapters")
    with progress.Lines(20, [ONE], 1) as lines:
        lines.start(ONE)
        lines.tick()
        lines.done(ONE)
    said = [record.getMessage() for record in caplog.records]
    assert said[0] == "running one.md: its code changed" and said[1].startswith("ran one.md in ") and len(said) == 2
