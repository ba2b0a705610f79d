"""A chapter as a notebook, where its lines stand, and what of its outputs may be published."""

import copy
import functools
import os
import re
import tempfile
from pathlib import Path

import jupytext
from mkdocs.exceptions import BuildError

ROOT = Path(__file__).resolve().parents[2]
# A chapter that looks at a clock or at the machine's memory shows what it measured: it runs alone.
CLOCK = re.compile(r"\b(perf_counter|monotonic|process_time|timeit|getrusage|tracemalloc|time\.time)\b")


def read(source):
    """The chapter as a notebook without outputs; no cell of code if it is a plain page."""
    found = Path(source).stat()
    return copy.deepcopy(_read(Path(source), found.st_mtime_ns, found.st_size))


@functools.lru_cache(maxsize=100)
def _read(source: Path, date: int, size: int):
    notebook = jupytext.read(source)
    notebook.cells = [cell for cell in notebook.cells if cell.cell_type != "raw"]  # front matter
    notebook.metadata.pop("jupytext", None)
    for number, cell in enumerate(notebook.cells):
        cell.id = f"cell-{number}"  # jupytext draws ids at random; the site is to be the same each time
        # "#name" after the fence is Entangled's syntax, which jupytext keeps but does not understand.
        if name := re.match(r"#([\w-]+)", cell.metadata.pop("incorrectly_encoded_metadata", "")):
            cell.metadata.piece = name[1]
    return notebook


def code_cells(notebook) -> list:
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def measures(notebook) -> bool:
    return any(CLOCK.search(cell.source) for cell in code_cells(notebook))


def place(notebook, index: int, source: Path, line: int = 1) -> str:
    """Where a line of a cell stands: docs/06-attention.md:120 (code cell 3)."""
    text, position = source.read_text(encoding="utf-8"), 0
    for cell in notebook.cells[:index + 1]:
        position = max(position, text.find(cell.source, position))
    number = sum(cell.cell_type == "code" for cell in notebook.cells[:index + 1])
    line += text.count("\n", 0, position)
    return f"{source.relative_to(ROOT).as_posix()}:{line} (code cell {number})"


def check(notebook, source: Path) -> None:
    """What must never be published, whether it comes from a run or was kept from an earlier one."""
    private = [str(ROOT), str(Path.home()) + os.sep, tempfile.gettempdir() + os.sep]
    for index, cell in enumerate(notebook.cells):
        if cell.cell_type != "code":
            continue
        tags = cell.metadata.get("tags", [])
        # Progress bars and warnings are for whoever builds; a chapter that means them says so.
        if "stderr" not in tags:
            cell.outputs = [out for out in cell.outputs if out.get("name") != "stderr"]
        for out in cell.outputs:
            if out.output_type == "error" and "raises-exception" not in tags:
                raise BuildError(f"{place(notebook, index, source)}: {out.ename}: {out.evalue}")
            shown = out.get("text", "") + out.get("evalue", "") + out.get("data", {}).get("text/plain", "")
            for folder in private:
                if folder in shown:
                    raise BuildError(f"{place(notebook, index, source)}: the output shows a path of this "
                                     f"machine: {folder}… (a chapter runs in an empty folder of its own: "
                                     "write files there, by name)")
            if is_figure(out) and not cell.metadata.get("alt"):
                raise BuildError(f"{place(notebook, index, source)}: the cell outputs a figure: "
                                 'say what it shows, alt="…"')


def is_figure(output) -> bool:
    return any(kind.startswith("image/") for kind in output.get("data", {}))
