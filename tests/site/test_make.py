"""What make promises besides the commands it calls: any folder name, and no interruption does harm.

A copy of the book is used, and .venv/ready says that this Python is its environment.
"""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
pytestmark = [pytest.mark.book, pytest.mark.skipif(not shutil.which("make"), reason="needs make")]


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "Bücher für alle 书"
    shutil.copytree(ROOT / "docs", folder / "docs")
    shutil.copytree(ROOT / "tinyllm", folder / "tinyllm", ignore=shutil.ignore_patterns("__pycache__", "*.safetensors"))
    (folder / "tools").mkdir()
    for name in ("tools/book.py", "entangled.toml", "tangled.sha256", "Makefile", "pyproject.toml", "constraints.txt", "mkdocs.yml"):
        shutil.copy(ROOT / name, folder / name)
    (folder / ".venv").mkdir()
    (folder / ".venv/ready").write_text(ascii(str(folder)))
    return folder


def make(folder, *arguments, python=sys.executable, **environment):
    return subprocess.run(["make", f"PY={python}", *arguments], cwd=folder, env=os.environ | environment,
                          start_new_session=True, capture_output=True, text=True)


def test_make_in_a_folder_with_spaces_and_letters_of_all_kinds(folder):
    module = folder / "tinyllm/mask.py"
    module.write_text(module.read_text("utf-8").replace("diagonal=1", "diagonal=2"), "utf-8")
    assert "make stitch" in make(folder, "check").stderr
    done = make(folder, "stitch")
    assert "04-arrow-of-time.md: stitched" in done.stdout and done.returncode == 0, done.stderr
    assert "diagonal=2" in (folder / "docs/04-arrow-of-time.md").read_text("utf-8")
    assert make(folder, "check").returncode == 0


def test_make_help_lists_every_target(folder):
    text = (folder / "Makefile").read_text("utf-8")
    targets = text[text.index(".PHONY:"):].splitlines()[0].split()[1:]
    shown = make(folder).stdout
    assert all(f"make {target} " in shown for target in targets if target != "FORCE")


# ------------------------------------------------------------------ make book, interrupted

STEP = """\
#!/bin/sh
# One step of a build; before the one that is chosen, a signal ends make and all it has started.
read n < "$STEPS"
echo $((n + 1)) > "$STEPS"
if [ "$n" = "$AT" ]; then kill -"$SIGNAL" 0; fi
"""
PYTHON = STEP.replace("read", """\
case "$*" in
*mkdocs*) ;;                # the build: a page that is first half written, then whole
*tangle*) exit ;;
*) exec "$REAL" "$@" ;;
esac
mkdir -p site.new && printf half > site.new/index.html
read""", 1) + 'printf "$SITE" > site.new/index.html\n'


@pytest.fixture
def stepwise(folder):
    """make book with each command that changes a file counted; returns a function that runs it."""
    steps, bin = folder / ".steps", folder.parent / "bin"
    bin.mkdir()
    for name in ("mkdir", "touch", "rm", "mv"):
        (bin / name).write_text(f'{STEP}exec {shutil.which(name)} "$@"\n')
    (bin / "python").write_text(PYTHON)
    for path in bin.iterdir():
        path.chmod(0o755)

    def run(site, at=-1, number=signal.SIGKILL):
        steps.write_text("0\n")
        done = make(folder, "book", python=bin / "python", STEPS=str(steps), AT=str(at), SITE=site, REAL=sys.executable,
                    SIGNAL=number.name.removeprefix("SIG"), PATH=f"{bin}:{os.environ['PATH']}")
        return done.returncode, int(steps.read_text())

    return run


def page(folder):
    path = folder / "index.html"
    return path.read_text() if path.exists() else None


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT], ids=lambda number: number.name)
def test_make_book_interrupted_at_any_step_keeps_a_whole_site_and_the_next_run_repairs(folder, stepwise, number):
    assert stepwise("old 0")[0] == 0 and page(folder / "site") == "old 0"
    (folder / "docs/index.md").touch()
    _, steps = stepwise("old 1")
    assert steps >= 7
    for at in range(steps):
        (folder / "docs/index.md").touch()
        status, _ = stepwise("new", at, number)
        assert status != 0
        here = page(folder / "site") or page(folder / "site.old")  # between two moves the old one waits beside
        assert here in (f"old {at + 1}", "new")
        (folder / "docs/04-arrow-of-time.md").touch()
        assert stepwise("fails", 4)[0] != 0 and page(folder / "site") == here, "a failed build took the site away"
        (folder / "docs/index.md").touch()
        assert stepwise(f"old {at + 2}")[0] == 0
        assert page(folder / "site") == f"old {at + 2}" and not (folder / "site.new").exists() and not (folder / "site.old").exists()
