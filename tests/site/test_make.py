"""What make promises besides the commands it calls: any folder name, and any number of jobs.

A copy of the book is used, and .venv/ready says that this Python is its environment.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
pytestmark = [pytest.mark.book, pytest.mark.skipif(sys.platform == "win32" or not shutil.which("make"), reason="needs make")]


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "Bücher für alle 书"
    shutil.copytree(ROOT / "docs", folder / "docs")
    shutil.copytree(ROOT / "tinyllm", folder / "tinyllm", ignore=shutil.ignore_patterns("__pycache__", "*.safetensors"))
    shutil.copytree(ROOT / "tools", folder / "tools", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("entangled.toml", "tangled.sha256", "Makefile", "pyproject.toml", "constraints.txt", "mkdocs.yml"):
        shutil.copy(ROOT / name, folder / name)
    (folder / ".venv").mkdir()
    (folder / ".venv/ready").write_text(ascii(str(folder)))
    return folder


def make(folder, *arguments, python=sys.executable, **environment):
    return subprocess.run(["make", f"PY={python}", *arguments], cwd=folder, env=os.environ | environment,
                          start_new_session=True, capture_output=True, text=True)


def test_make_in_a_folder_with_spaces_and_letters_of_all_kinds(folder):
    module = next(path for path in (folder / "tinyllm").glob("*.py") if "diagonal=1" in path.read_text("utf-8"))
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


PYTHON = """\
#!/bin/sh
# Says which program begins and ends; what would take long is only said.
echo "begin $*" >> "$LOG"
case "$*" in
*tools.site | *pytest*) ;;
*) "$REAL" "$@" || exit ;;
esac
echo "end $*" >> "$LOG"
"""


def test_book_and_test_at_once_keep_their_order(folder, tmp_path):
    """Tests look at the built site, and the two sides are compared after they were made equal."""
    python, log = tmp_path / "python", tmp_path / "log"
    python.write_text(PYTHON)
    python.chmod(0o755)
    chapter = folder / "docs/04-arrow-of-time.md"
    chapter.write_text(chapter.read_text("utf-8").replace("diagonal=1", "diagonal=2"), "utf-8")
    done = make(folder, "-j4", "book", "test", python=python, LOG=str(log), REAL=sys.executable)
    assert done.returncode == 0, done.stderr
    lines = [line for line in log.read_text().splitlines() if " -m " in line]
    assert lines.index("end -m tools.chapters tangle") < lines.index("begin -m tools.chapters check")
    assert lines.index("end -m tools.chapters check") < lines.index("begin -m pytest")
    assert lines.index("end -m tools.site") < lines.index("begin -m pytest")
    assert lines.count("end -m tools.site") == 2, "each of the two sees to it that the site is built"


@pytest.mark.parametrize("target, says", [("test", "make tangle"), ("book", "no piece is called")])
def test_make_stops_at_chapters_that_cannot_be_used(folder, tmp_path, target, says):
    python, log = tmp_path / "python", tmp_path / "log"
    python.write_text(PYTHON)
    python.chmod(0o755)
    chapter = folder / "docs/04-arrow-of-time.md"
    text = chapter.read_text("utf-8")
    new = text.replace("diagonal=1", "diagonal=2") if target == "test" else text.replace("python #causal-mask", "python #other")
    assert new != text
    chapter.write_text(new, "utf-8")
    done = make(folder, target, python=python, LOG=str(log), REAL=sys.executable)
    assert done.returncode == 2 and says in done.stderr
    assert "tools.site" not in log.read_text() and "pytest" not in log.read_text()


def test_tests_hear_ctrl_c_when_they_run_in_the_background():
    """A shell starts a program in the background, and nohup one, deaf to it."""
    code = "import signal, subprocess, sys; signal.signal(signal.SIGINT, signal.SIG_IGN); " \
           "sys.exit(subprocess.call([sys.executable, '-m', 'pytest', '-q', '-p', 'no:cacheprovider', *sys.argv[1:]]))"
    tests = [ROOT / "tests/site/test_publish.py", "-k", "interrupted and SIGINT"]
    done = subprocess.run([sys.executable, "-c", code, *map(str, tests)], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
