"""`make serve`: pages at once, with their last outputs, while the chapters run behind them.

Each build of the server tangles, asks which chapters are out of date, and shows every page as it can be
shown: `remarks` says on a page that its outputs are being renewed, or why they cannot be. The chapter that was
edited last runs first, alone; then those that depend on what changed. A chapter that is running is stopped
when its outputs will not be wanted. Each one that ends makes MkDocs build the pages anew.
"""

import html
import logging
import socket
import sys
import threading
import time
from pathlib import Path

from mkdocs.exceptions import Abort, BuildError

from tools.chapters.__main__ import do_tangle, one_at_a_time
from tools.chapters.read import Fault
from tools.site import notebook, reads, schedule, store
from tools.site.kernel import Cancelled, Run

log = logging.getLogger("mkdocs.chapters")
BELL = notebook.ROOT / ".cache" / "renewed"     # MkDocs watches it: a file written there rings for a build

running = False
port_checked = False
tangled = None
tangle_fault = ""
renewer = None


def begin() -> None:
    global running, renewer
    running = True
    BELL.mkdir(parents=True, exist_ok=True)
    renewer = Renewer(lambda: (BELL / "bell").write_text(str(time.time_ns())))


def check_port(config) -> None:
    """A port that is taken is said at once and in one line, not after a build and with a traceback."""
    global port_checked
    if port_checked:
        return
    port_checked = True
    host, port = config.dev_addr
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as probe:
        if sys.platform != "win32":
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)   # as the server does
        try:
            probe.bind((host, port))
        except OSError as error:
            end()
            raise Abort(f"{host}:{port} cannot be served from ({error.strerror}); is a server running "
                        "already? Another port: make serve ARGS='-a localhost:8001'") from None


def renew(sources: list[Path]) -> None:
    """What each build begins with: tangle, and see which chapters have to run."""
    global tangle_fault, tangled
    if tangled != both_sides():
        try:
            with one_at_a_time(notebook.ROOT):
                do_tangle(notebook.ROOT)
            tangle_fault = ""
        except Fault as fault:
            tangle_fault = str(fault)
            log.error("not tangled: %s", fault)
        tangled = both_sides()
    renewer.update(sources)


def both_sides() -> list:
    """The state of chapters and package: most builds of the server find both as they were."""
    root = notebook.ROOT
    paths = [*(root / "docs").rglob("*.md"), *(root / "tinyllm").glob("*.py*"), *root.glob("tangled.sha256")]
    return sorted((str(path), *reads.state(path)) for path in paths)


def remarks(page: str) -> str:
    """What the server has to say at the top of this page, as HTML; nothing when a book is built."""
    if not running:
        return ""
    shown = ""
    if tangle_fault:
        title = "The chapters could not be tangled; the package is as it was before"
        shown += _box("danger", title, tangle_fault)
    state, text = renewer.state(page)
    has_outputs = store.latest(notebook.ROOT / "docs" / page) is not None
    if state == "failed":
        outputs = "its outputs are from an earlier run" if has_outputs else "it has no outputs yet"
        shown += _box("danger", f"This chapter failed; {outputs}", text)
    elif state and has_outputs:
        shown += _box("warning", f"The outputs on this page are being renewed ({text})", "")
    elif state:
        shown += _box("warning", f"This page has no outputs yet; they are being made ({text})", "")
    return shown


def _box(kind: str, title: str, text: str) -> str:
    body = f"<pre><code>{html.escape(text)}</code></pre>" if text else ""
    title = f'<p class="admonition-title">{html.escape(title)}</p>'
    return f'<div class="admonition {kind}">{title}{body}</div>\n'


def watch(server) -> None:
    server.watch(str(BELL))


def end() -> None:
    global running
    if renewer is not None:
        renewer.stop()
    running = False


class Renewer:
    """Runs chapters in the background; `ring` is called when one has ended."""

    def __init__(self, ring):
        self.ring = ring
        self.changed = threading.Condition()    # guards all that follows
        self.waiting = []                       # jobs, in the order in which they will run
        self.active = {}                        # {job: (its run, the state of the book it was started for)}
        self.failed = {}                        # {chapter: (state of the book, message)}
        self.keys = {}                          # {chapter: key of its code when last seen}
        self.edited = {}                        # {chapter: in which update its code was seen to change}
        self.updates = 0
        self.stopped = False
        threading.Thread(target=self._work, daemon=True).start()

    def update(self, sources: list[Path]) -> None:
        """The book may have changed: decide anew what runs, and in which order."""
        book = reads.digest("all")
        states = {}
        for source in sources:
            states[source] = store.key(notebook.read(source)) + book
        jobs = schedule.stale(sources)
        with self.changed:
            self.updates += 1
            for source, state in states.items():
                key = state.removesuffix(book)
                if self.keys.get(source, key) != key:
                    self.edited[source] = self.updates
                self.keys[source] = key
            for source, (state, _) in list(self.failed.items()):
                if state != states.get(source):
                    del self.failed[source]
            jobs = [job for job in jobs if job.source not in self.failed]
            stale = {job.source for job in jobs}
            # last edited first, what measures last, otherwise in the order of the book
            jobs.sort(key=lambda job: (-self.edited.get(job.source, 0), job.measures))
            first = self.edited.get(jobs[0].source, 0) if jobs else 0
            for job, (run, state) in self.active.items():
                wanted = job.source in stale and state == states[job.source]
                if not wanted or self.edited.get(job.source, 0) < first:
                    run.cancel()
            going_on = {job.source for job, (run, _) in self.active.items() if not run.cancelled}
            self.waiting = [job for job in jobs if job.source not in going_on]
            self.changed.notify_all()

    def state(self, page: str) -> tuple[str, str]:
        """("running" | "waiting" | "failed" | "", what to say about it)"""
        with self.changed:
            for source, (_, message) in self.failed.items():
                if source.name == page:
                    return "failed", message
            running = [job for job, (run, _) in self.active.items() if not run.cancelled]
            for job in running:
                if job.name == page:
                    lasted = f"; the last time it took {job.seconds:.0f} s" if job.seconds else ""
                    return "running", "running now" + lasted
            for before, job in enumerate(running + self.waiting):
                if job.name == page:
                    return "waiting", f"after {before} other{'s' if before > 1 else ''}" if before else "next"
        return "", ""

    def stop(self) -> None:
        with self.changed:
            self.stopped = True
            self.waiting = []
            for run, _ in self.active.values():
                run.cancel()
            self.changed.notify_all()

    def _work(self) -> None:
        while not self.stopped:
            with self.changed:
                self.changed.wait_for(lambda: self.waiting or self.stopped)
            with schedule.one_at_a_time():
                while (self.waiting or self.active) and not self.stopped:
                    with self.changed:
                        if not self._start_next():
                            self.changed.wait(1)
            self._say_what_came_out()

    def _say_what_came_out(self) -> None:
        with self.changed:
            failed = sorted(source.name for source in self.failed)
        if failed:
            log.error("%d of the chapters failed: %s", len(failed), ", ".join(failed))
        elif not self.stopped:
            log.info("all chapters are up to date")

    def _start_next(self) -> bool:
        """Start the first waiting chapter if it may run beside those that run."""
        if not self.waiting:
            return False
        job = self.waiting[0]
        alone = [j for j in (job, *self.active) if j.measures or self.edited.get(j.source)]
        if self.active and (alone or len(self.active) >= schedule.WORKERS):
            return False
        self.waiting.pop(0)
        page = notebook.read(job.source)
        run = Run(page, job.source)
        state = store.key(page) + reads.digest("all")
        self.active[job] = run, state
        threading.Thread(target=self._run, args=(job, run, state), daemon=True).start()
        return True

    def _run(self, job, run, state) -> None:
        log.info("running %s: %s", job.name, job.reason)
        fault = ""
        try:
            schedule.execute(job, run)
            log.info("ran %s in %.1f s", job.name, run.seconds)
        except (Cancelled, reads.Changed):
            log.info("stopped %s: the book has changed", job.name)
        except BuildError as error:
            fault = str(error)
            log.error("%s", error)
        except Exception as error:          # of the machinery; the server goes on
            fault = f"{job.source.name}: {type(error).__name__}: {error}"
            log.exception("%s could not be run", job.name)
        with self.changed:
            del self.active[job]
            if fault and not run.cancelled:
                self.failed[job.source] = state, fault
            self.changed.notify_all()
        if not self.stopped and not run.cancelled:
            self.ring()
