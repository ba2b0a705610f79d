"""What all tests share: settings that keep them quick and their results the same on a busy machine."""

import io
import os
import runpy
import signal
import sys
from contextlib import chdir, redirect_stderr, redirect_stdout

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # In the background and under nohup a shell starts us deaf to Ctrl-C, and all we start would be too.
    signal.signal(signal.SIGINT, signal.default_int_handler)
os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch: models this small gain nothing from a second thread

import pytest  # noqa: E402
from hypothesis import HealthCheck, Phase, settings  # noqa: E402

from tools.chapters import tangle  # noqa: E402

# How long an example takes depends on what else is running.
settings.register_profile("book", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("mutants", settings.get_profile("book"), derandomize=True, report_multiple_bugs=False,
                          phases=[Phase.explicit, Phase.generate])  # tools/measure/mutants.py: the first failure will do
settings.load_profile("book")


def entangled_in_this_process(folder):
    """What tangle.call_entangled does, without a new Python for each of some hundred tanglings.
    (Entangled reads entangled.toml once: a test that changes it needs the real one.)"""
    said, status = io.StringIO(), 0
    with pytest.MonkeyPatch.context() as patch, chdir(folder), redirect_stdout(said), redirect_stderr(said):
        patch.setattr(sys, "argv", ["entangled", *tangle.TANGLE])
        try:
            runpy.run_module("entangled.main", run_name="__main__")
        except SystemExit as end:
            status = end.code or 0
    return status, said.getvalue()


@pytest.fixture(scope="session", autouse=True)
def quick_entangled():
    """For calls of the functions of tools.chapters; what the tests start as a program of its own is untouched."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tangle, "call_entangled", entangled_in_this_process)
        yield
