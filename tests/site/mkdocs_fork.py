"""Build a small book quickly: MkDocs and its plugins are imported once, and each build is a fork of that process.

Not in a test file, because the build must find its own copy of tools/, and those import ours.
"""

import multiprocessing
import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
fork = multiprocessing.get_context("forkserver" if hasattr(os, "fork") else "spawn")
fork.set_forkserver_preload(["mkdocs.commands.build", "mkdocs_jupyter.plugin", "mkdocs_jupyter.convert", "material.plugins.search.plugin",
                             "jupytext", "nbclient", "ipykernel.kernelspec", "bs4"])


def work(folder, environment, log):
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    sys.path[:] = [path for path in sys.path if Path(path).resolve() != ROOT]
    with open(log, "wb") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    sys.argv = ["mkdocs", "build", "--strict", "-d", "site"]
    from mkdocs.__main__ import cli
    cli()


def build(folder, environment):
    """As `mkdocs build` in that folder: the exit status and what it printed."""
    log = folder.with_name(folder.name + ".log")
    process = fork.Process(target=work, args=(folder, environment, log))
    process.start()
    process.join()
    return process.exitcode, log.read_text(encoding="utf-8")
