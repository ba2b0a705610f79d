"""Chapters 1 … k alone make a package that imports and keeps what they have promised so far."""

import json
import os
import subprocess
import sys
from pathlib import Path

import book
import pytest

ROOT = Path(__file__).resolve().parent.parent
CHAPTERS = sorted((ROOT / "docs").glob("[0-9]*.md"))

PROMISES = {  # chapter -> what works from there on
    1: "import tinyllm; assert 'TinyLLM' in tinyllm.__all__",
    2: "from tinyllm import Config; assert Config().d_model == 64",
    3: "from tinyllm import encode, decode, load_text; assert decode(encode('é中🙂')) == 'é中🙂'; assert load_text()",
    4: "from tinyllm import causal_mask; assert causal_mask(8).shape == (8, 8)",
    5: "from tinyllm.bricks import LayerNorm, Linear; import torch; assert Linear(3, 2)(torch.ones(3)).shape == (2,)",
    6: "from tinyllm.attention import CausalSelfAttention as A; assert A(Config())(torch.ones(1, 5, 64)).shape == (1, 5, 64)",
    7: "from tinyllm.block import Block; assert Block(Config(norm_first=True))(torch.ones(1, 5, 64)).shape == (1, 5, 64)",
    8: "from tinyllm import TinyLLM; assert TinyLLM()(encode('hello')[None]).shape == (1, 5, 256)",
    9: "from tinyllm import train; assert len(train(TinyLLM(), encode('to be or not ' * 9), steps=2)) == 2",
    10: "from tinyllm import generate; assert len(list(generate(TinyLLM(), 'a', tokens=3))) == 3",
    11: "from tinyllm import trace\nwith trace(TinyLLM()) as log: pass\nassert log == []",
    12: "from tinyllm.cli import main",
}


ALL = """
import json, sys, traceback
wrong = {}
for k, (folder, code) in enumerate(json.load(sys.stdin), start=1):
    for name in [name for name in sys.modules if name.split(".")[0] == "tinyllm"]:
        del sys.modules[name]
    sys.path[0] = folder
    try:
        exec(code, {})
    except BaseException:
        wrong[k] = traceback.format_exc()
print(json.dumps(wrong))
"""


@pytest.fixture(scope="module")
def prefixes(tmp_path_factory):
    """The package of chapters 1 … k for every k, and what went wrong with it; in one process, since each
    would wait for torch."""
    packages, programs = {}, []
    for k in range(1, 13):
        folder = tmp_path_factory.mktemp(f"chapters_1_to_{k}_")
        book.main(["prefix", str(k), str(folder)])
        packages[k] = sorted(folder.glob("tinyllm/*.py"))
        modules = [path.stem for path in packages[k] if path.stem not in ("__init__", "__main__")]
        code = [f"import tinyllm.{module}" for module in modules] + [PROMISES[chapter] for chapter in range(1, k + 1)]
        programs.append((str(folder), "\n".join(code)))
    run = subprocess.run([sys.executable, "-c", ALL], input=json.dumps(programs), capture_output=True, text=True,
                         cwd=tmp_path_factory.mktemp("nothing_here"), env={**os.environ, "PYTHONPATH": ""})
    assert run.returncode == 0, run.stderr
    return packages, json.loads(run.stdout.splitlines()[-1])


@pytest.mark.parametrize("k", range(1, 13))
def test_the_first_chapters_stand_alone(k, prefixes):
    packages, wrong = prefixes
    assert str(k) not in wrong, wrong[str(k)]
    assert len(packages[k]) >= k


def test_every_chapter_has_a_promise():
    assert len(CHAPTERS) == len(PROMISES) == 12
