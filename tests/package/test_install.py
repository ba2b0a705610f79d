"""What reaches a user by pip: the same wheel each time, from and into folders that cannot be written to."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

pytestmark = pytest.mark.book

ROOT = Path(__file__).resolve().parents[2]


def listing(folder):
    return {path.relative_to(folder): path.is_file() and path.read_bytes() for path in folder.rglob("*")}


def read_only(folder):
    for path in [folder, *folder.rglob("*")]:
        path.chmod(path.stat().st_mode & ~0o222)


def writable_again(folder):
    for path in [folder, *folder.rglob("*")]:
        path.chmod(path.stat().st_mode | 0o200)


def sources(folder):
    """A copy with dates, and a umask, of its own."""
    shutil.copytree(ROOT / "tinyllm", folder / "tinyllm", ignore=shutil.ignore_patterns("__pycache__"), copy_function=shutil.copyfile)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copyfile(ROOT / name, folder / name)
    return folder


def pip(*arguments, cwd):
    done = subprocess.run([sys.executable, "-m", "pip", *arguments], cwd=cwd, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """Built from a source folder that cannot be written to, and is not."""
    folder = tmp_path_factory.mktemp("wheel")
    here = sources(folder / "Bücher für alle 书")
    before = listing(here)
    read_only(here)
    pip("wheel", "-q", "--no-deps", "--no-build-isolation", "-w", folder / "dist", ".", cwd=here)
    assert listing(here) == before  # root may write anywhere, so look
    writable_again(here)
    return next((folder / "dist").iterdir())


def test_the_wheel_is_the_same_bytes_each_time(wheel, tmp_path):
    mask = os.umask(0o077)
    try:
        here = sources(tmp_path / "elsewhere")
    finally:
        os.umask(mask)
    for path in here.rglob("*"):
        os.utime(path, (10**9, 10**9))
    pip("wheel", "-q", "--no-deps", "--no-build-isolation", "-w", tmp_path, ".", cwd=here)
    assert (tmp_path / wheel.name).read_bytes() == wheel.read_bytes()


def test_the_package_works_from_a_read_only_folder_and_writes_nothing_there(wheel, tmp_path):
    installed, work = tmp_path / "Bücher für alle 书", tmp_path / "work"
    pip("install", "-q", "--no-deps", "--no-index", "--target", installed, wheel, cwd=tmp_path)
    work.mkdir()
    before = listing(installed)
    assert before.keys() >= {Path("tinyllm") / name for name in ("pretrained.safetensors", "cli.py", "__init__.pyi", "py.typed")}
    read_only(installed)
    code = """
import sys, tinyllm
from tinyllm.cli import main
assert tinyllm.__file__.startswith(sys.argv[1]), tinyllm.__file__
main(["generate", "The ", "--tokens", "5"])
main(["inspect", "The "])
main(["train", "--data", sys.argv[2], "--steps", "2"])
"""
    text = work / "text"
    text.write_bytes(b"What is written without effort is in general read without pleasure. " * 20)
    done = subprocess.run([sys.executable, "-c", code, installed, text], cwd=work, capture_output=True, text=True,
                          env=os.environ | {"PYTHONPATH": str(installed), "PYTHONDONTWRITEBYTECODE": "1"})
    writable_again(installed)
    assert done.returncode == 0 and "val_loss" in done.stdout, done.stderr
    assert listing(installed) == before
    assert {path.name for path in work.iterdir()} == {"text", "tinyllm.safetensors"}


def test_constraints_pin_everything_that_gets_installed():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    pinned = set(re.findall(r"^([\w.-]+)==", (ROOT / "constraints.txt").read_text("utf-8"), re.M))
    extras = project["project"]["optional-dependencies"]
    later = {canonicalize_name(Requirement(text).name) for text in extras["bench"]}  # `make bench` installs it
    todo = [(Requirement(text), "") for text in project["build-system"]["requires"] + project["project"]["dependencies"]
            + sum(extras.values(), [])]
    seen = set()
    while todo:
        requirement, extra = todo.pop()
        name = canonicalize_name(requirement.name)
        if name in seen or requirement.marker and not requirement.marker.evaluate({"extra": extra}):
            continue
        seen.add(name)
        assert name in pinned, f"{name} has no version in constraints.txt: run tools/measure/pins.py (see CONTRIBUTING.md)"
        try:
            todo += [(Requirement(text), extra) for text in requires(name) or [] for extra in ("", *requirement.extras)]
        except PackageNotFoundError:
            name in later or pytest.fail(f"{name} is not installed: run this through make")
    assert len(seen) > 40
