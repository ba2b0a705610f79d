"""The command line as a user meets it: in a process of its own."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tinyllm import TinyLLM

ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parent.parent), "PYTHONUTF8": "1"}
TEXT = b"How vainly men themselves amaze, to win the palm, the oak, or bays. " * 20


def tinyllm(*arguments, **options):
    options = {"env": ENVIRONMENT, "capture_output": True, "timeout": 300, **options}
    return subprocess.run([sys.executable, "-m", "tinyllm", *map(os.fsencode, map(str, arguments))], **options)


@pytest.fixture
def data(tmp_path):
    path = tmp_path / "poem.txt"
    path.write_bytes(TEXT)
    return path


def refused(run):
    """Exit status 2 and one line that is no traceback; returns the line."""
    lines = run.stderr.decode().splitlines()
    assert run.returncode == 2, run
    assert not any(line.startswith("Traceback") for line in lines)
    assert lines[-1].startswith("tinyllm") and (len(lines) == 1 or lines[0].startswith("usage:")), lines
    return lines[-1]


# ------------------------------------------------------------------ train

def test_train_saves_a_model_and_ends_with_its_loss(data, tmp_path):
    out = tmp_path / "model.safetensors"
    run = tinyllm("train", "--data", data, "--steps", 3, "--out", out)
    assert run.returncode == 0, run.stderr
    last = run.stdout.decode().splitlines()[-1].split()
    assert last[0] == "val_loss" and 0 < float(last[1]) < 6
    assert TinyLLM.load(out).config == TinyLLM().config
    assert b"3/3" in run.stderr  # progress


def test_train_goes_on_from_a_checkpoint_and_from_standard_input(data, tmp_path):
    first, second = tmp_path / "first", tmp_path / "second"
    tinyllm("train", "--data", data, "--steps", 40, "--out", first)
    run = tinyllm("train", "--data", "-", "--init", first, "--steps", 40, "--out", second, input=TEXT)
    before, after = (float(loss_of(path, data)) for path in (first, second))
    assert run.returncode == 0 and after < before


def loss_of(path, data):
    from tinyllm import evaluate, load_ids

    return evaluate(TinyLLM.load(path), load_ids(data))


@pytest.mark.slow
def test_an_interrupted_training_keeps_its_weights(data, tmp_path):
    out = tmp_path / "model.safetensors"
    process = subprocess.Popen([sys.executable, "-m", "tinyllm", "train", "--data", data, "--steps", "1000000", "--out", out],
                               env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    while b"it/s" not in process.stderr.read1():
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    stdout, stderr = process.communicate(timeout=60)
    assert process.returncode == 0 and b"interrupted" in stderr and b"Traceback" not in stderr
    assert b"val_loss" in stdout and TinyLLM.load(out)


@pytest.mark.parametrize("text", [b"", b"x", b"x" * 60])
def test_too_short_a_text(tmp_path, text):
    (tmp_path / "short").write_bytes(text)
    assert "too" in refused(tinyllm("train", "--data", tmp_path / "short", "--out", tmp_path / "out"))
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("arguments, says", [
    (["--data", "no-such-file"], "no-such-file"), (["--data", "/"], "directory"),
    (["--out", "/no/such/folder/x"], "/no/such/folder"), (["--out", "."], "cannot save"),
    (["--out", ""], "cannot save"), (["--init", "no-such-model"], "no-such-model"),
    (["--steps", "many"], "many"), (["--device", "abacus"], "abacus"), (["--steps", "-1"], "-1")])
def test_train_refuses(arguments, says, tmp_path):
    assert says in refused(tinyllm("train", *arguments, cwd=tmp_path))
    assert not list(tmp_path.iterdir())


# ------------------------------------------------------------------ generate

def test_generate_continues_the_prompt(tmp_path):
    run = tinyllm("generate", "The ", "--tokens", 20, "--seed", 1, cwd=tmp_path)
    assert run.returncode == 0 and run.stdout.startswith(b"The ") and len(run.stdout) > 20
    assert tinyllm("generate", "The ", "--tokens", 20, "--seed", 1).stdout == run.stdout


@pytest.mark.parametrize("prompt", ["é中🙂", "\udcff\udcfe", "x" * 500])
def test_any_prompt(prompt):
    run = tinyllm("generate", prompt, "--tokens", 2)
    assert run.returncode == 0, run.stderr


def test_a_terminal_that_knows_only_ascii():
    environment = {**ENVIRONMENT, "PYTHONUTF8": "0", "PYTHONIOENCODING": "ascii", "LC_ALL": "C"}
    run = tinyllm("generate", "caf\udcc3\udca9 ", "--tokens", 3, env=environment)
    assert run.returncode == 0, run.stderr


@pytest.mark.parametrize("arguments, says", [
    ([""], "empty"), (["a", "--temperature", "-1"], "-1"), (["a", "--temperature", "nan"], "nan"),
    (["a", "--top-k", "0"], "0"), (["a", "--tokens", "-3"], "-3"), (["a", "--model", "nowhere"], "nowhere"),
    (["a", "--model", "/"], "/"), ([], "prompt")])
def test_generate_refuses(arguments, says):
    assert says in refused(tinyllm("generate", *arguments))


def test_a_text_is_not_overwritten_with_weights(data):
    refused(tinyllm("train", "--data", data, "--out", data, "--steps", 1))
    assert data.read_bytes() == TEXT


def test_ctrl_c_ends_a_generation_without_a_traceback():
    process = subprocess.Popen([sys.executable, "-m", "tinyllm", "generate", "a", "--tokens", "100000"], env=ENVIRONMENT,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    process.stdout.read(3)
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=60)
    assert process.returncode == 130 and not stderr


def test_output_cut_off_is_no_error():
    process = subprocess.Popen([sys.executable, "-m", "tinyllm", "generate", "a", "--tokens", "2000"], env=ENVIRONMENT,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    process.stdout.read(1)
    process.stdout.close()
    assert b"Traceback" not in process.stderr.read()
    process.wait(60)


# ------------------------------------------------------------------ inspect

def test_inspect_prints_ledger_shapes_and_next_symbols(tmp_path):
    run = tinyllm("inspect", "the q", "--out", tmp_path / "maps", cwd=tmp_path)
    assert run.returncode == 0, run.stderr
    text = run.stdout.decode()
    assert "98,816" in text and "(1, 4, 5, 5)" in text
    table = text[text.index("next") :].splitlines()
    assert table[2].split()[0] == "u"
    assert (tmp_path / "maps/attention.png").read_bytes().startswith(b"\x89PNG")
    assert "<svg" in (tmp_path / "maps/attention.svg").read_text()


# ------------------------------------------------------------------ help

def test_help_does_not_wait_for_torch():
    code = "import sys; from tinyllm.cli import main\ntry: main(['--help'])\nexcept SystemExit: assert 'torch' not in sys.modules"
    run = subprocess.run([sys.executable, "-c", code], env=ENVIRONMENT, capture_output=True)
    assert run.returncode == 0 and b"inspect" in run.stdout, run.stderr


@pytest.mark.parametrize("command", ["train", "generate", "inspect"])
def test_every_option_is_explained(command):
    text = tinyllm(command, "--help").stdout.decode()
    options = [line for line in text.splitlines() if line.startswith("  --")]
    assert options and tinyllm(command, "--help").returncode == 0
    for line in options:
        assert len(line.split("  ")) > 2 or text.splitlines()[text.splitlines().index(line) + 1].startswith(" " * 20), line


def test_no_command_is_refused():
    refused(tinyllm())
