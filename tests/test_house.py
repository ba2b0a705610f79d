"""The plan of the house holds: small files, imports in one direction, every module named in its room's plan."""

import ast
import re
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
import yaml

pytestmark = pytest.mark.book

ROOT = Path(__file__).resolve().parents[1]
ROOMS = {"chapters": set(), "site/drawing": set(), "site": {"chapters", "site/drawing"}, "measure": set()}     # -> may use
MODULES = sorted(path for path in (ROOT / "tools").rglob("*.py") if path.name != "__init__.py" and "watch" not in path.parts)


def room_of(path):
    return path.parent.relative_to(ROOT / "tools").as_posix()


def plan(room):
    """The modules of a room, in the order in which its __init__.py lists them."""
    text = (ROOT / "tools" / room / "__init__.py").read_text("utf-8")
    names = re.findall(r"^    ((?:\w+, )*\w+)  +\S", text, re.M)
    return [name for line in names for name in line.split(", ")]


def imports(path):
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


@pytest.mark.parametrize("room", ROOMS)
def test_the_plan_of_a_room_names_each_of_its_modules_once(room):
    here = {path.stem for path in MODULES if room_of(path) == room}
    assert here and sorted(plan(room)) == sorted(here)


@pytest.mark.parametrize("path", MODULES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_a_module_imports_only_what_stands_above_it(path):
    room, order = room_of(path), plan(room_of(path))
    for name in imports(path):
        if not name.startswith("tools."):
            continue
        other, _, module = name.removeprefix("tools.").replace(".", "/").rpartition("/")
        if other == room:
            assert module not in order or order.index(module) < order.index(path.stem), name
        elif other in ROOMS:
            assert other in ROOMS[room] or f"{other}/{module}" in ROOMS[room] | {room}, name


def test_the_package_knows_nothing_of_the_tools():
    for path in (ROOT / "tinyllm").glob("*.py"):
        assert not [name for name in imports(path) if name.split(".")[0] in ("tools", "tests")], path


@pytest.mark.parametrize("path", MODULES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_no_file_is_larger_than_250_lines(path):
    assert len(path.read_text("utf-8").splitlines()) <= 250


# ------------------------------------------------------------------ what is said where

SAYS = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "Makefile", "mkdocs.yml", "pyproject.toml", "entangled.toml",
                                 "tools/README.md", "docs/A1-editing.md")]
SAYS += sorted((ROOT / ".github/workflows").glob("*.yml"))


@pytest.mark.parametrize("path", SAYS, ids=lambda path: path.name)
def test_commands_and_paths_that_are_named_exist(path):
    text = path.read_text("utf-8")
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text("utf-8"), re.M))
    named = set(re.findall(r"(?:`|run: |^)make ([a-z]+)\b", text, re.M))
    assert named <= targets, named - targets
    for module in re.findall(r"-m (tools(?:\.\w+)+)", text):
        place = ROOT / module.replace(".", "/")
        assert place.with_suffix(".py").exists() or (place / "__main__.py").exists(), module
    for name in re.findall(r"\b((?:tools|tests)/[\w/]*\w(?:\.\w+)?)", text):
        assert (ROOT / name).exists(), name


def test_the_commands_without_make_are_those_that_a_workflow_runs():
    workflow = yaml.safe_load((ROOT / ".github/workflows/test.yml").read_text("utf-8"))["jobs"]["plain"]
    said = (ROOT / "CONTRIBUTING.md").read_text("utf-8").partition("## Without make")[2].partition("\n## ")[0]
    run = [step["run"].replace('"', "") for step in workflow["steps"] if "run" in step]
    assert len(run) == 5 and {"windows-latest", "macos-latest"} == {*workflow["strategy"]["matrix"]["os"]}
    for command in run:
        words = command.removeprefix("python -m ") if "pip" in command or "pytest" in command else command
        words = words.replace("tools.chapters check", "tools.chapters tangle")      # as in make test and make book
        assert words in said or "playwright" in words, command


def test_the_source_distribution_ships_no_tests_that_could_not_run(tmp_path):
    source = tmp_path / "source"
    shutil.copytree(ROOT / "tinyllm", source / "tinyllm", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(ROOT / "tests/package", source / "tests/package", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    subprocess.run([sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", tmp_path], cwd=source, check=True, capture_output=True)
    with tarfile.open(next(tmp_path.glob("*.tar.gz"))) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert "tinyllm/model.py" in names and not [name for name in names if name.startswith("tests")]
