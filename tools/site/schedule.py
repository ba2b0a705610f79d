"""Run the chapters whose outputs are out of date: which, in which order, and which beside each other.

Chapters that measure times run alone and last, with all cores. The others run beside each other, one on each
core, with one thread each: their numbers depend neither on what runs beside them nor on how many cores there are.
"""

import concurrent.futures
import logging
import os
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock, Timeout

from tools.site import notebook, store
from tools.site.kernel import Run
from tools.site.progress import Bar, Lines

log = logging.getLogger("mkdocs.chapters")
WORKERS = int(os.environ.get("BOOK_JOBS") or os.cpu_count() or 1)


@dataclass(eq=False)
class Job:
    """A chapter that has to run."""
    source: Path
    measures: bool
    seconds: float | None       # how long it took last time
    reason: str                 # why it has to run

    @property
    def name(self):
        return self.source.name


def stale(sources: list[Path]) -> list[Job]:
    """The chapters among these pages that have no outputs for their present state, in book order."""
    jobs = []
    for source in sources:
        page = notebook.read(source)
        if notebook.code_cells(page) and store.find(page, source) is None:
            reason = store.reason(page, source)
            jobs.append(Job(source, notebook.measures(page), store.seconds(source), reason))
    return jobs


def execute(job: Job, run: Run | None = None) -> None:
    """Run a chapter and keep its outputs."""
    page = notebook.read(job.source)
    run = run or Run(page, job.source)
    run.execute()
    store.keep(run)
    notebook.check(run.notebook, job.source)


def run_all(sources: list[Path]) -> None:
    """Bring all chapters up to date, or raise the BuildError of the first that fails."""
    if not stale(sources):
        return
    with one_at_a_time():
        jobs = stale(sources)           # another build may have run them meanwhile
        kind = Bar if sys.stderr.isatty() else Lines
        with kind(len(sources), jobs, WORKERS) as progress:
            _run_batch([job for job in jobs if not job.measures], WORKERS, progress)
            _run_batch([job for job in jobs if job.measures], 1, progress)


def _run_batch(jobs: list[Job], workers: int, progress) -> None:
    if workers > 1:                     # the longest first, or it would be the last to end, alone
        jobs = sorted(jobs, key=lambda job: -(job.seconds or 0))
    runs = {}

    def work(job):
        runs[job] = Run(notebook.read(job.source), job.source)
        progress.start(job)
        execute(job, runs[job])
        progress.done(job)

    with concurrent.futures.ThreadPoolExecutor(workers) as pool:
        pending = {pool.submit(work, job) for job in jobs}
        try:
            while pending:
                done, pending = concurrent.futures.wait(pending, 1, concurrent.futures.FIRST_COMPLETED)
                progress.tick()
                for future in done:
                    future.result()
        finally:                        # after a fault, or Ctrl-C: nothing goes on behind our back
            for future in pending:
                future.cancel()
            for run in list(runs.values()):
                run.cancel()


@contextmanager
def one_at_a_time():
    """Only one build of this book runs chapters: two would disturb each other's measurements."""
    folder = notebook.ROOT / ".cache"
    folder.mkdir(exist_ok=True)
    lock = FileLock(folder / "run.lock", thread_local=False)
    try:
        lock.acquire(blocking=False)
    except Timeout:
        log.info("another build of this book is running its chapters: waiting for it …")
        lock.acquire()
    try:
        yield
    finally:
        lock.release()
