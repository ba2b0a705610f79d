"""Run a chapter, or take its outputs from the cache.

The cache key is what the outputs depend on and nothing else: the chapter's code cells
(jupyter-cache hashes those) and a digest of the package, its weights, the results of
`make bench` and `make ablation`, the pinned versions and the plotting style (the name of the cache's folder).
Prose is not part of it.
"""

import hashlib
import logging
import os
import re
import shutil
import sys
import tempfile
import threading
import time
from concurrent.futures import Future
from pathlib import Path

import jupytext
from jupyter_cache import get_cache
from jupyter_cache.base import CacheBundleIn
from mkdocs.exceptions import BuildError
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError
from nbconvert.filters import strip_ansi

ROOT = Path(__file__).resolve().parents[2]
STYLE = Path(__file__).with_name("matplotlibrc")
CACHE = ROOT / ".cache" / "chapters"
KEPT = 4  # caches of earlier states of the package, for going back and forth
CELL_TIMEOUT = 600

log = logging.getLogger("mkdocs.chapters")


def digest() -> str:
    """One short name for the state of everything besides its code that a chapter's outputs rest on."""
    sha = hashlib.sha256(sys.version.encode())
    package = (p for p in sorted((ROOT / "tinyllm").rglob("*")) if p.suffix in {".py", ".safetensors"})
    for path in (*package, *sorted((ROOT / "docs" / "assets").glob("*.json")), ROOT / "constraints.txt", STYLE, Path(__file__)):
        if path.is_file():
            sha.update(f"{path.relative_to(ROOT)} {path.stat().st_size}\n".encode() + path.read_bytes())
    return sha.hexdigest()[:16]


def executed(source: Path):
    """The chapter as a notebook with outputs."""
    notebook = jupytext.read(source)
    notebook.cells = [cell for cell in notebook.cells if cell.cell_type != "raw"]  # front matter
    notebook.metadata.pop("jupytext", None)
    for number, cell in enumerate(notebook.cells):
        cell.id = f"cell-{number}"  # jupytext draws ids at random; the site is to be the same each time
        # "#name" after the fence is Entangled's syntax, which jupytext keeps but does not understand.
        if name := re.match(r"#([\w-]+)", cell.metadata.pop("incorrectly_encoded_metadata", "")):
            cell.metadata.piece = name[1]
    if not any(cell.cell_type == "code" for cell in notebook.cells):
        return notebook

    before = digest()
    cache = get_cache(CACHE / before)
    try:
        # cell_meta=(): outputs from the cache, tags and alt texts from the chapter as it is now.
        _, notebook = cache.merge_match_into_notebook(notebook, cell_meta=())
    except KeyError:
        start = time.monotonic()
        log.info("running %s", source.name)
        _run(notebook, source)
        if digest() != before:
            raise BuildError(f"{source.name}: tinyllm/ changed while this chapter ran. Build again.")
        cache.cache_notebook_bundle(CacheBundleIn(notebook, source.name), overwrite=True)
        log.info("ran %s in %.1f s", source.name, time.monotonic() - start)
    _check(notebook, source)
    return notebook


def forget_old() -> None:
    """Keep the caches of the last few states of the package."""
    if CACHE.is_dir():
        os.utime(CACHE / digest()) if (CACHE / digest()).is_dir() else None
        for folder in sorted(CACHE.iterdir(), key=lambda p: p.stat().st_mtime)[:-KEPT]:
            shutil.rmtree(folder, ignore_errors=True)


def _run(notebook, source: Path) -> None:
    # An empty folder to work in: the chapter sees what a reader's notebook would see, and leaves
    # nothing behind in the repository. The package comes from the repository all the same.
    with tempfile.TemporaryDirectory() as folder:
        environment = os.environ | {
            "PYTHONPATH": str(ROOT),
            "PYTHONDONTWRITEBYTECODE": "1",
            "MATPLOTLIBRC": str(STYLE),
            "IPYTHONDIR": os.path.join(folder, ".ipython"),
            "SOURCE_DATE_EPOCH": "0",
        }
        client = NotebookClient(
            notebook, kernel_name="python3", timeout=CELL_TIMEOUT, record_timing=False,
            coalesce_streams=True,  # where a text is cut into messages is a matter of chance
            extra_arguments=["--InlineBackend.figure_formats={'svg'}"],
            resources={"metadata": {"path": folder}},
        )
        # The kernel's own remarks (it warns on every start that TCP is not encrypted) are not for the
        # build's output; what a chapter's code writes to stderr travels another way.
        log_file, started = Path(folder, "kernel.log"), [0]
        client.on_cell_start = lambda cell, cell_index: started.append(cell_index)
        try:
            with log_file.open("w") as kernel_log:
                _execute(client, env=environment, stderr=kernel_log)
        except CellExecutionError as error:
            _fail(notebook, started[-1], source, f"{error.ename}: {error.evalue}", error.traceback)
        except CellTimeoutError:
            _fail(notebook, started[-1], source, f"ran for more than {CELL_TIMEOUT} s")
        except DeadKernelError:
            last = log_file.read_text(errors="replace").strip().splitlines()[-1:]
            _fail(notebook, started[-1], source, "\n".join(["the Python process died (out of memory?)", *last]))
    for cell in notebook.cells:
        for output in cell.get("outputs", ()):
            if output.output_type == "error":  # an intended one: its lines name folders of this machine
                output.traceback = [f"{output.ename}: {output.evalue}"]


def _execute(client, **options) -> None:
    """Run it in a thread: in the main one, nbclient takes Ctrl-C for itself and `make serve` cannot be ended."""
    done = Future()

    def work():
        try:
            done.set_result(client.execute(**options))
        except BaseException as error:
            done.set_exception(error)

    threading.Thread(target=work, daemon=True).start()
    done.result()


def _fail(notebook, index: int, source: Path, problem: str, traceback: str = "") -> None:
    """Stop the build with the chapter, the cell and the error in a few lines."""
    lines = notebook.cells[index].source.splitlines()
    found = re.findall(r"Cell In\[\d+\], line (\d+)", strip_ansi(traceback))
    at = int(found[0]) if found else 1
    problem = re.sub(r" \(\d+\.py, line \d+\)", "", problem).strip()
    excerpt = "\n".join(f"{'  >' if n == at else '   '} {line}"
                        for n, line in enumerate(lines, 1) if at - 3 <= n <= at + 1)
    raise BuildError(f"{place(notebook, index, source, at)}: {problem}\n{excerpt}")


def place(notebook, index: int, source: Path, line: int = 1) -> str:
    """Where a line of a cell stands: docs/06-attention.md:120 (code cell 3)."""
    text, position = source.read_text(encoding="utf-8"), 0
    for cell in notebook.cells[:index + 1]:
        position = max(position, text.find(cell.source, position))
    number = sum(cell.cell_type == "code" for cell in notebook.cells[:index + 1])
    return f"{source.relative_to(ROOT)}:{text.count(chr(10), 0, position) + line} (code cell {number})"


def _check(notebook, source: Path) -> None:
    """What must never be published, whether it comes from a run or from the cache."""
    for index, cell in enumerate(notebook.cells):
        tags = cell.metadata.get("tags", [])
        if cell.cell_type != "code":
            continue
        # Progress bars and warnings are for whoever builds; a chapter that means them says so.
        if "stderr" not in tags:
            cell.outputs = [out for out in cell.outputs if out.get("name") != "stderr"]
        for out in cell.outputs:
            if out.output_type == "error" and "raises-exception" not in tags:
                raise BuildError(f"{place(notebook, index, source)}: {out.ename}: {out.evalue}")
            shown = out.get("text", "") + out.get("evalue", "") + out.get("data", {}).get("text/plain", "")
            for private in (str(ROOT), str(Path.home()) + os.sep, tempfile.gettempdir() + os.sep):
                if private in shown:
                    raise BuildError(f"{place(notebook, index, source)}: the output shows a path of this machine: {private}… "
                                     "(a chapter runs in an empty folder of its own: write files there, by name)")
            if any(kind.startswith("image/") for kind in out.get("data", {})) and not cell.metadata.get("alt"):
                raise BuildError(f'{place(notebook, index, source)}: the cell outputs a figure: say what it shows, alt="…"')
