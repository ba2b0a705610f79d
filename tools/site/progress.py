"""How far the running of chapters is: a bar with an estimate on a terminal, plain lines elsewhere."""

import logging
import threading
import time

from tqdm import tqdm

log = logging.getLogger("mkdocs.chapters")


class Lines:
    """One line when a chapter starts, one when it is done."""

    def __init__(self, pages, jobs, workers):
        self.started = {}

    def __enter__(self):
        return self

    def __exit__(self, *error):
        pass

    def start(self, job):
        self.started[job] = time.monotonic()
        log.info("running %s: %s", job.name, job.reason)

    def done(self, job):
        log.info("ran %s in %.1f s", job.name, time.monotonic() - self.started[job])

    def tick(self):
        pass


class Bar:
    """All pages of the book: those that are up to date count from the beginning."""

    def __init__(self, pages, jobs, workers):
        self.waiting, self.running, self.took = list(jobs), {}, {}
        self.workers = workers
        self.lock = threading.Lock()
        self.bar = tqdm(total=pages, initial=pages - len(jobs), unit="page", dynamic_ncols=True, leave=False,
                        bar_format="{n_fmt}/{total_fmt} pages |{bar}| {elapsed}{postfix}")

    def __enter__(self):
        self.tick()
        return self

    def __exit__(self, *error):
        self.bar.close()

    def start(self, job):
        with self.lock:
            self.waiting.remove(job)
            self.running[job] = time.monotonic()
        self.tick()

    def done(self, job):
        with self.lock:
            self.took[job] = time.monotonic() - self.running.pop(job)
        self.bar.update()
        self.tick()

    def tick(self):
        with self.lock:
            names = " ".join(job.source.stem for job in self.running)
            left = seconds_left(self.waiting, self.running, self.took, self.workers, time.monotonic())
        estimate = "" if left is None else f"about {_words(left)} left"
        self.bar.set_postfix_str(", ".join(filter(None, [names, estimate])), refresh=True)


def seconds_left(waiting, running, took, workers, now):
    """Out of how long each chapter took last time; one that is not known takes as long as the mean."""
    known = [*took.values(), *(job.seconds for job in [*waiting, *running] if job.seconds)]
    if not known:
        return None
    mean = sum(known) / len(known)
    beside, alone = 0.0, 0.0
    for job in [*waiting, *running]:
        left = (job.seconds or mean) - (now - running[job] if job in running else 0)
        if job.measures:
            alone += max(left, 0)
        else:
            beside += max(left, 0)
    return beside / workers + alone


def _words(seconds):
    return f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.0f} min"
