"""The plan of the house holds: small files, imports in one direction, every module named in its room's plan."""

import ast
import re
from pathlib import Path

import pytest

pytestmark = pytest.mark.book

ROOT = Path(__file__).resolve().parents[1]
ROOMS = {"chapters": set(), "site": {"chapters"}, "measure": set()}     # a room -> the others it may use
MODULES = sorted(path for path in (ROOT / "tools").rglob("*.py") if path.name != "__init__.py" and "watch" not in path.parts)


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
    here = {path.stem for path in MODULES if path.parent.name == room}
    assert here and sorted(plan(room)) == sorted(here)


@pytest.mark.parametrize("path", MODULES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_a_module_imports_only_what_stands_above_it(path):
    room, order = path.parent.name, plan(path.parent.name)
    for name in imports(path):
        parts = name.split(".")
        if parts[0] != "tools" or len(parts) < 3:
            continue
        if parts[1] == room:
            assert parts[2] not in order or order.index(parts[2]) < order.index(path.stem), name
        else:
            assert parts[1] in ROOMS[room], name


def test_the_package_knows_nothing_of_the_tools():
    for path in (ROOT / "tinyllm").glob("*.py"):
        assert not [name for name in imports(path) if name.split(".")[0] in ("tools", "tests")], path


@pytest.mark.parametrize("path", MODULES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_no_file_is_larger_than_250_lines(path):
    assert len(path.read_text("utf-8").splitlines()) <= 250
