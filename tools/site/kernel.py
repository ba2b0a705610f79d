"""Run one chapter: its outputs, and what it read."""

import os
import re
import signal
import tempfile
import threading
import time
from concurrent.futures import Future
from pathlib import Path

from mkdocs.exceptions import BuildError
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError
from nbconvert.filters import strip_ansi

from tools.site import reads
from tools.site.notebook import ROOT, code_cells, measures, place

HERE = Path(__file__).parent
CELL_TIMEOUT = 600


class Cancelled(Exception):
    """The chapter was stopped because its outputs are not wanted any more."""


class Run:
    """One execution of a chapter; another thread may cancel it."""

    def __init__(self, notebook, source: Path):
        self.notebook = notebook
        self.source = source
        self.read = {}              # what it read: see reads.py
        self.seconds = 0.0
        self.client = None
        self.cancelled = False

    def execute(self) -> None:
        """Fill the notebook's outputs, or raise BuildError with the line of the cell that failed."""
        start = time.monotonic()
        # An empty folder to work in: the chapter sees what a reader's notebook would see, and leaves
        # nothing behind in the repository. The package comes from the repository all the same.
        with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as notes:
            try:
                self._execute_in(folder, notes)
            finally:
                self.client = None      # its process has ended: another may have got its number
            self.read = reads.collect(Path(notes), self.source)
        self.seconds = time.monotonic() - start
        for cell in code_cells(self.notebook):
            for output in cell.outputs:
                if output.output_type == "error":  # an intended one: its lines name folders of this machine
                    output.traceback = [f"{output.ename}: {output.evalue}"]

    def cancel(self) -> None:
        """End the chapter's process and what it has started."""
        self.cancelled = True
        manager = getattr(self.client, "km", None)
        pid = getattr(getattr(manager, "provisioner", None), "pid", None)
        if pid is None:
            return
        try:
            os.killpg(pid, signal.SIGKILL) if hasattr(os, "killpg") else os.kill(pid, signal.SIGTERM)
        except OSError:
            pass                    # it has ended by itself

    def _execute_in(self, folder: str, notes: str) -> None:
        environment = os.environ | {
            "PYTHONPATH": os.pathsep.join([str(HERE / "watch"), str(ROOT)]),
            "BOOK_ROOT": str(ROOT),
            "BOOK_READS": notes,
            "PYTHONDONTWRITEBYTECODE": "1",
            "MATPLOTLIBRC": str(HERE / "matplotlibrc"),
            "IPYTHONDIR": os.path.join(folder, ".ipython"),
            "SOURCE_DATE_EPOCH": "0",
        }
        if not measures(self.notebook):     # see schedule.py
            environment["OMP_NUM_THREADS"] = "1"
        self.client = NotebookClient(
            self.notebook, kernel_name="python3", timeout=CELL_TIMEOUT, record_timing=False,
            coalesce_streams=True,  # where a text is cut into messages is a matter of chance
            extra_arguments=["--InlineBackend.figure_formats={'svg'}"],
            resources={"metadata": {"path": folder}},
        )
        # The kernel's own remarks (it warns on every start that TCP is not encrypted) are not for the
        # build's output; what a chapter's code writes to stderr travels another way.
        log_file, started = Path(folder, "kernel.log"), [0]

        def cell_starts(cell, cell_index):
            started.append(cell_index)
            if self.cancelled:
                raise Cancelled

        self.client.on_cell_start = cell_starts
        try:
            with log_file.open("w") as kernel_log:
                in_a_thread(self.client.execute, env=environment, stderr=kernel_log)
        except CellExecutionError as error:
            self._fail(started[-1], f"{error.ename}: {error.evalue}", error.traceback)
        except CellTimeoutError:
            self._fail(started[-1], f"ran for more than {CELL_TIMEOUT} s")
        except DeadKernelError:
            if self.cancelled:
                raise Cancelled from None
            last = log_file.read_text(errors="replace").strip().splitlines()[-1:]
            self._fail(started[-1], "\n".join(["the Python process died (out of memory?)", *last]))
        if self.cancelled:
            raise Cancelled

    def _fail(self, index: int, problem: str, traceback: str = "") -> None:
        """Stop with the chapter, the cell and the error in a few lines."""
        if self.cancelled:
            raise Cancelled from None
        lines = self.notebook.cells[index].source.splitlines()
        found = re.findall(r"Cell In\[\d+\], line (\d+)", strip_ansi(traceback))
        at = int(found[0]) if found else 1
        problem = re.sub(r" \(\d+\.py, line \d+\)", "", problem).strip()
        excerpt = "\n".join(f"{'  >' if n == at else '   '} {line}"
                            for n, line in enumerate(lines, 1) if at - 3 <= n <= at + 1)
        raise BuildError(f"{place(self.notebook, index, self.source, at)}: {problem}\n{excerpt}") from None


def in_a_thread(work, **options):
    """In the main thread, nbclient takes Ctrl-C for itself and `make serve` cannot be ended."""
    done = Future()

    def run():
        try:
            done.set_result(work(**options))
        except BaseException as error:
            done.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return done.result()
