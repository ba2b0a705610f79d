"""Chapters 1 … k alone make a package that imports and keeps what they have promised so far."""

import re
import sys
from importlib import import_module
from pathlib import Path

import pytest

from tools.chapters.__main__ import main

pytestmark = pytest.mark.book

ROOT = Path(__file__).resolve().parents[2]
CHAPTERS = sorted((ROOT / "docs").glob("[0-9]*.md"))

PROMISES = {  # chapter -> what works from there on
    1: "import tinyllm; assert tinyllm.__version__ and 'TinyLLM' in tinyllm.__all__",
    2: "from tinyllm import Config; assert Config().d_model == 64",
    3: "from tinyllm import encode, decode; assert decode(encode('é中🙂')) == 'é中🙂'",
    4: "from tinyllm import causal_mask; assert causal_mask(8).shape == (8, 8); mask = causal_mask(5)",
    5: "from tinyllm.model import LayerNorm, Linear; import torch; assert Linear(3, 2)(torch.ones(3)).shape == (2,)",
    6: "from tinyllm.model import Attention as A; assert A(Config())(torch.ones(1, 5, 64), mask).shape == (1, 5, 64)",
    7: "from tinyllm.model import Block; assert Block(Config(norm_first=True))(torch.ones(1, 5, 64), mask).shape == (1, 5, 64)",
    8: "from tinyllm import TinyLLM; assert TinyLLM()(encode('hello')[None]).shape == (1, 5, 256)",
    9: "from tinyllm import train; assert len(train(TinyLLM(), encode('to be or not ' * 12), steps=2)) == 2",
    10: "from tinyllm import generate; assert len(list(generate(TinyLLM(), 'a', tokens=3))) == 3",
    11: "from tinyllm import trace\nwith trace(TinyLLM()) as log: pass\nassert log == {}",
}
FILES = {1: "__init__", 2: "model", 3: "text", 9: "training", 10: "generation", 11: "microscope"}  # from there on


@pytest.fixture
def without_tinyllm(monkeypatch):
    """As if it had never been imported (in a new process each of these tests would wait for torch)."""
    def names():
        return [name for name in sys.modules if name.partition(".")[0] == "tinyllm"]

    kept = {name: sys.modules.pop(name) for name in names()}
    yield
    for name in names():
        del sys.modules[name]
    sys.modules.update(kept)


@pytest.mark.parametrize("k", range(1, 12))
def test_the_first_chapters_stand_alone(k, tmp_path, monkeypatch, without_tinyllm):
    main(["prefix", str(k), str(tmp_path)])
    monkeypatch.syspath_prepend(tmp_path)
    modules = sorted(tmp_path.glob("tinyllm/*.py"))
    assert {path.stem for path in modules} == {name for chapter, names in FILES.items() if chapter <= k for name in names.split()}
    for path in modules:
        if path.stem != "__main__":  # importing that runs the command line
            assert Path(import_module(f"tinyllm.{path.stem}").__file__) == path
    reader = {}
    for chapter in range(1, k + 1):
        exec(PROMISES[chapter], reader)


def test_every_chapter_that_writes_a_part_of_the_package_has_a_promise():
    writers = [path for path in CHAPTERS if re.search("^```(python #|.*file=)", path.read_text("utf-8"), re.MULTILINE)]
    assert [int(path.name[:2]) for path in writers] == list(PROMISES) and len(CHAPTERS) == 12
