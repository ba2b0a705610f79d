"""What a chapter read is noted while it runs: by itself, by what it starts, and by code that is not Python's."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import safetensors.torch
import torch

from tools.site import reads

pytestmark = pytest.mark.book

ROOT = Path(__file__).resolve().parents[2]
WATCH = ROOT / "tools/site/watch"


@pytest.fixture
def root(tmp_path, monkeypatch):
    """A small package, with weights, that each watched process finds before any other tinyllm."""
    root = tmp_path / "Bücher für alle 书"
    (root / "tinyllm").mkdir(parents=True)
    (root / "docs/assets").mkdir(parents=True)
    (root / "tinyllm/__init__.py").write_text("")
    (root / "tinyllm/a.py").write_text("import tinyllm.b\n")
    (root / "tinyllm/b.py").write_text("")
    (root / "tinyllm/c.py").write_text("")
    safetensors.torch.save_file({"x": torch.zeros(1)}, root / "tinyllm/weights.safetensors")
    monkeypatch.setattr(reads, "ROOT", root.resolve())
    return root


def record(root, code, **more):
    """What reads.py makes of the notes of a process that runs this code."""
    notes = root.parent / "notes"
    shutil.rmtree(notes, ignore_errors=True)
    notes.mkdir()
    environment = os.environ | {"PYTHONPATH": f"{WATCH}{os.pathsep}{root}", "BOOK_ROOT": str(root), "BOOK_READS": str(notes)} | more
    done = subprocess.run([sys.executable, "-c", code], cwd=root.parent, env=environment, capture_output=True, text=True)
    assert done.returncode == 0 and not done.stderr, done.stderr
    return reads.collect(notes, Path("chapter.md"))


HERE = "from pathlib import Path\nimport os, subprocess, sys, tinyllm\nhere = Path(tinyllm.__file__).parent\n"
CHILD = "import subprocess, sys\nsubprocess.run([sys.executable, '-c', {code!r}], check=True{more})\n"


@pytest.mark.parametrize("code, wanted", [
    ("print('nothing')", []),
    ("import tinyllm.a", ["file tinyllm/__init__.py", "file tinyllm/a.py", "file tinyllm/b.py"]),
    ("import tinyllm.c", ["file tinyllm/__init__.py", "file tinyllm/c.py"]),
    (CHILD.format(code="import tinyllm.c", more=""), ["file tinyllm/__init__.py", "file tinyllm/c.py"]),
    (CHILD.format(code=CHILD.format(code="import tinyllm.c", more=""), more=""), ["file tinyllm/__init__.py", "file tinyllm/c.py"]),
    ("import multiprocessing as m\np = m.get_context('fork').Process(target=lambda: __import__('tinyllm.c'))\np.start(); p.join()",
     ["file tinyllm/__init__.py", "file tinyllm/c.py"]),
    (HERE + "(here / 'weights.safetensors').read_bytes()", ["file tinyllm/__init__.py", "file tinyllm/weights.safetensors"]),
    (HERE + "from safetensors import safe_open\nwith safe_open(here / 'weights.safetensors', 'pt') as f: f.keys()",
     ["file tinyllm/__init__.py", "file tinyllm/weights.safetensors"]),
    (HERE + "from safetensors.torch import load_file\nload_file(here / 'weights.safetensors')",
     ["file tinyllm/__init__.py", "file tinyllm/weights.safetensors"]),
    (HERE + "try: open(here / 'gone.json')\nexcept OSError: pass", ["file tinyllm/__init__.py", "file tinyllm/gone.json"]),
    (HERE + "sorted(here.glob('*.py'))", ["file tinyllm/__init__.py", "names tinyllm"]),
    (HERE + "for folder in sys.path[1:3]: os.listdir(folder)", ["file tinyllm/__init__.py"]),
    (HERE + "os.chdir(here); os.listdir()", ["file tinyllm/__init__.py", "names tinyllm"]),
    (HERE + "open(here / 'new', 'w').close()", ["file tinyllm/__init__.py"]),
    # what cannot be watched: then the chapter depends on all there is
    (CHILD.format(code="import sys", more="").replace("sys.executable,", "sys.executable, '-I',"), ["all"]),
    (CHILD.format(code="1", more=", env={'PATH': '/bin'}"), ["all"]),
    (HERE + "subprocess.run(['cat', here / 'c.py'])", ["all", "file tinyllm/__init__.py"]),
    (HERE + "os.system('wc -l ' + repr(str(here / 'c.py')))", ["all", "file tinyllm/__init__.py"]),
    ("import subprocess; subprocess.run(['uname'])", []),
], ids=["nothing", "imports", "another module", "a process", "a process of a process", "a fork", "weights", "weights opened in Rust",
        "weights loaded in Rust", "a file that is not there", "a folder", "folders where modules are looked for", "the folder it is in", "writing", "a process that is deaf",
        "a process without our environment", "another program", "a shell", "a program that does not know of us"])
def test_what_a_process_reads_is_noted(root, code, wanted):
    assert list(record(root, code)) == wanted


def test_bytecode_counts_as_its_source(root):
    for write in ("", "1"):
        seen = record(root, "import tinyllm.c", PYTHONDONTWRITEBYTECODE=write)
        assert list(seen) == ["file tinyllm/__init__.py", "file tinyllm/c.py"]
    assert list(root.glob("tinyllm/__pycache__/c.*.pyc")), "the second process was to find bytecode"


def test_a_module_of_the_same_name_is_imported_all_the_same(root):
    other = root.parent / "other"
    other.mkdir()
    (other / "sitecustomize.py").write_text("import builtins\nbuiltins.other = 'was here'\n")
    record(root, "assert other == 'was here'", PYTHONPATH=os.pathsep.join(map(str, (WATCH, other, root))))


@pytest.mark.parametrize("change, same", [
    (lambda root: (root / "tinyllm/b.py").write_text("b = 1\n"), False),
    (lambda root: (root / "tinyllm/b.py").touch(), True),
    (lambda root: (root / "tinyllm/b.py").unlink(), False),
    (lambda root: (root / "tinyllm/c.py").write_text("c = 1\n"), True),
    (lambda root: (root / "docs/assets/bench.json").write_text("{}"), False),       # it was asked for, and was not there
    (lambda root: (root / "docs/assets/other.json").write_text("{}"), True),
    (lambda root: (root / "tinyllm/d.py").write_text(""), False),                   # the names were asked for
    (lambda root: (root / "tinyllm/weights.safetensors").write_bytes(b"new"), True),
])
def test_only_what_was_read_counts(root, change, same):
    seen = record(root, HERE + "import tinyllm.a; os.listdir(here)\ntry: open(here.parent / 'docs/assets/bench.json')\nexcept OSError: pass")
    assert reads.unchanged(seen)
    change(root)
    assert reads.unchanged(seen) == same


@pytest.mark.parametrize("name", ["tinyllm/c.py", "tinyllm/weights.safetensors", "docs/assets/bench.json"])
def test_in_doubt_everything_counts(root, name):
    seen = record(root, CHILD.format(code="1", more="").replace("sys.executable,", "sys.executable, '-I',"))
    assert reads.unchanged(seen)
    (root / name).write_text("changed")
    assert not reads.unchanged(seen)


def test_a_process_nobody_watched_is_a_doubt(root):
    assert list(record(root, "import tinyllm.c", PYTHONPATH=str(root))) == ["all"]


def test_a_file_that_changes_while_it_is_used_is_noticed(root):
    with pytest.raises(reads.Changed, match="chapter.md: tinyllm/c.py changed while"):
        record(root, HERE + "import tinyllm.c\n(here / 'c.py').write_text('# new')")


def test_notes_are_lines_of_json(root):
    record(root, "import tinyllm.c")
    lines = [json.loads(line) for path in (root.parent / "notes").iterdir() for line in path.read_text().splitlines()]
    assert lines[0][0] == "begun" and all(len(line) == 4 for line in lines)
