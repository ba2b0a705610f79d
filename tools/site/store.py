"""The outputs of earlier runs: .cache/chapters/NN-name/*.run, one file a run.

A run's outputs are a chapter's outputs as long as its code is the same (the key) and everything it read says
the same (the record). The first line of a file has these two and how long it took; the second the outputs.
"""

import contextlib
import json
import os
import sys
import tempfile
import time
from pathlib import Path

import nbformat

from tools.site import reads
from tools.site.notebook import ROOT, code_cells

STORE = ROOT / ".cache" / "chapters"
KEPT = 6    # runs of a chapter, for going back and forth between two states of the book
RUNNER = [Path(__file__).with_name("kernel.py"), Path(__file__).parent / "watch" / "sitecustomize.py"]


def key(notebook) -> str:
    """What a chapter's outputs rest on besides what it reads: its code, Python, the pins, how it is run."""
    cells = []
    for cell in code_cells(notebook):
        cells.append([cell.source, "raises-exception" in cell.metadata.get("tags", [])])
    files = [reads.file_digest(path) for path in (ROOT / "constraints.txt", *RUNNER)]
    return reads.short(json.dumps([cells, files, sys.version]))


def runs(source: Path):
    """(head, file) of the kept runs of a chapter, the newest first."""
    for path in sorted((STORE / source.stem).glob("*.run"), reverse=True):
        try:
            with path.open(encoding="utf-8") as file:
                yield json.loads(file.readline()), path
        except (OSError, ValueError):
            continue                # half written by a computer that was switched off


def find(notebook, source: Path) -> Path | None:
    """The run whose outputs are this chapter's, if there is one."""
    wanted = key(notebook)
    for head, path in runs(source):
        if head["key"] == wanted and reads.unchanged(head["read"]):
            return path
    return None


def fill(notebook, path: Path) -> None:
    """Put a run's outputs into the notebook: to the cells that have the code which made them."""
    made = {}
    for source, count, outputs in json.loads(path.read_text("utf-8").split("\n", 1)[1]):
        made.setdefault(source, []).append((count, outputs))
    for cell in code_cells(notebook):
        if made.get(cell.source):
            cell.execution_count, outputs = made[cell.source].pop(0)
            cell.outputs = [nbformat.from_dict(output) for output in outputs]


def latest(source: Path) -> Path | None:
    """The chapter's newest run, whatever has changed since."""
    return next((path for _, path in runs(source)), None)


def reason(notebook, source: Path) -> str:
    """Why the chapter has to run, in a few words."""
    head = next((head for head, _ in runs(source)), None)
    if head is None:
        return "for the first time"
    if head["key"] != key(notebook):
        return "its code changed"
    return ", ".join(reads.changed(head["read"]))


def seconds(source: Path) -> float | None:
    """How long the chapter took when it ran last."""
    return next((head["seconds"] for head, _ in runs(source)), None)


def readers(sources: list[Path]) -> dict[str, list[str]]:
    """{file of the book: the chapters that read it when they ran last}; "all" stands for what is not known."""
    found = {}
    for source in sources:
        head = next((head for head, _ in runs(source)), {"read": {}})
        for key in head["read"]:
            found.setdefault(key.removeprefix("file "), []).append(source.stem)
    return dict(sorted(found.items()))


def keep(run) -> None:
    head = {"key": key(run.notebook), "read": run.read, "seconds": round(run.seconds, 1)}
    cells = [[cell.source, cell.execution_count, cell.outputs] for cell in code_cells(run.notebook)]
    folder = STORE / run.source.stem
    folder.mkdir(parents=True, exist_ok=True)
    number, name = tempfile.mkstemp(suffix=".new", dir=folder)
    with open(number, "w", encoding="utf-8") as file:
        file.write(json.dumps(head) + "\n" + json.dumps(cells, ensure_ascii=False) + "\n")
    os.replace(name, folder / f"{time.time_ns()}.run")
    for old in sorted(folder.glob("*.run"))[:-KEPT] + list(folder.glob("*.new")):
        with contextlib.suppress(OSError):
            old.unlink()
