"""The command line as a user meets it. Most tests call main() here; those whose point is the process, the
status it ends with or a signal, start one."""

import ast
import io
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
import tomllib
from pathlib import Path

import pytest
import torch
from safetensors.torch import save

from test_text import NOT_UTF8, TEXTS, nobody, standard_input
from tinyllm import Config, TinyLLM, encode, evaluate, load_text, next_symbols, trace, train
from tinyllm.cli import main

ROOT = Path(__file__).resolve().parents[2]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUTF8": "1"}
TEXT = b"How vainly men themselves amaze, to win the palm, the oak, or bays. " * 20


def hears_ctrl_c():
    """In the child: a shell may have started us deaf to Ctrl-C, in the background or under nohup."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def start(*arguments, **options):
    options = {"env": ENVIRONMENT, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "preexec_fn": hears_ctrl_c, **options}
    return subprocess.Popen([sys.executable, "-m", "tinyllm", *(a if isinstance(a, bytes) else str(a) for a in arguments)], **options)


@pytest.fixture
def tinyllm(capsys, monkeypatch, tmp_path):
    """Run a command in an empty folder; returns its exit status, output and errors."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")

    def run(*arguments):
        try:
            status = main([*map(str, arguments)]) or 0
        except SystemExit as end:
            status = end.code
        return (status, *capsys.readouterr())
    return run


@pytest.fixture
def data(tmp_path):
    path = tmp_path / "poem.txt"
    path.write_bytes(TEXT)
    return path


def refused(status, out, err):
    """Exit status 2 and one line that is no traceback; returns the line."""
    lines = err.splitlines()
    assert status == 2 and "Traceback" not in err, err
    assert lines[-1].startswith("tinyllm") and (len(lines) == 1 or lines[0].startswith("usage:")), lines
    return lines[-1]


# ------------------------------------------------------------------ train

def test_train_saves_a_model_and_ends_with_its_loss(tinyllm, data):
    status, out, err = tinyllm("train", "--data", data, "--steps", 3, "--out", "model")
    assert status == 0 and out.splitlines()[-2] == "saved model"
    model, ids = TinyLLM.load("model"), encode(TEXT.decode())
    training, validation = ids[:-len(ids) // 10], ids[-len(ids) // 10 :]  # the last tenth was kept apart
    assert out.splitlines()[-1] == f"val_loss {evaluate(model, validation):.4f} nats per symbol"
    assert model.config == Config() and os.listdir() == ["model"]
    assert "3/3" in err  # progress
    torch.manual_seed(0)
    train(again := TinyLLM(), training, 3, seed=0)
    assert all(p.equal(other) for p, other in zip(model.parameters(), again.parameters()))


def test_train_takes_another_seed(tinyllm, data):
    for seed, out in ((0, "zero"), (0, "zero again"), (1, "one")):
        assert tinyllm("train", "--data", data, "--steps", 1, "--seed", seed, "--out", out)[0] == 0
    zero, again, one = (TinyLLM.load(path).head.weight for path in ("zero", "zero again", "one"))
    assert zero.equal(again) and not zero.equal(one)


def test_a_model_that_was_there_is_replaced(tinyllm, data):
    Path("model").write_bytes(b"an older file")
    assert tinyllm("train", "--data", data, "--steps", 1, "--out", "model")[0] == 0
    assert TinyLLM.load("model") and os.listdir() == ["model"]


def test_train_goes_on_from_a_checkpoint(tinyllm, data):
    for options in (["--out", "first"], ["--init", "first", "--out", "second"]):
        assert tinyllm("train", "--data", data, "--steps", 30, *options)[0] == 0
    before, after = (evaluate(TinyLLM.load(path), encode(load_text(data))) for path in ("first", "second"))
    assert after < before


@pytest.mark.slow
def test_an_interrupted_training_keeps_its_weights(data, tmp_path):
    process = start("train", "--data", data, "--steps", 10**6, "--out", tmp_path / "model")
    while b"it/s" not in process.stderr.read1():
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    stdout, stderr = process.communicate(timeout=60)
    assert process.returncode == 0 and b"Traceback" not in stderr
    assert b"val_loss" in stdout and TinyLLM.load(tmp_path / "model")


@pytest.mark.parametrize("arguments, says", [
    (["--out", "/no/such/folder/x"], "/no/such/folder"), (["--out", "."], "cannot save"), (["--out", ""], "cannot save"),
    (["--out", "../fifo"], "cannot save"), (["--init", "no-such-model"], "no-such-model"), (["--init", ""], "directory"),
    (["--steps", "many"], "many"), (["--steps", "-1"], "-1"), (["--seed", "1.5"], "1.5"), (["--seed", 10**30], "verflow"),
    (["--data", "https://example.org/a.txt"], "curl -L https://example.org/a.txt"), (["--device", "abacus"], "abacus"), (["--device", "xla"], "xla"), (["--device", "hpu"], "hpu"), (["--device", ""], "Device")])
def test_any_setting_that_train_cannot_have_is_one_line(tinyllm, arguments, says):
    os.mkfifo("../fifo")  # as little to be replaced by a file as /dev/null
    assert says in refused(*tinyllm("train", "--steps", 1, *arguments))
    assert not os.listdir()


@pytest.mark.parametrize("out", ["poem.txt", "./poem.txt", "link"])
def test_a_text_is_not_overwritten_with_weights(tinyllm, data, out):
    os.chdir(data.parent)
    os.symlink("poem.txt", "link")
    refused(*tinyllm("train", "--data", "poem.txt", "--out", out, "--steps", 1))
    assert data.read_bytes() == TEXT


# ------------------------------------------------------------------ any text

@pytest.mark.parametrize("name", TEXTS)
def test_any_text_can_be_trained_on(name, tinyllm, tmp_path):
    (tmp_path / "text").write_bytes(TEXTS[name] * 200)
    run = tinyllm("train", "--data", tmp_path / "text", "--steps", 1)
    if name == "empty":
        assert "too few" in refused(*run)
    elif name in NOT_UTF8:
        assert "not UTF-8" in refused(*run)
        assert tinyllm("train", "--data", tmp_path / "text", "--steps", 1, "--encoding", "utf-8")[0] == 0
    else:
        assert run[0] == 0 and "val_loss" in run[1]


@pytest.mark.parametrize("text", [b"", b"x", b"x" * 60, b"x" * 143])
def test_any_text_shorter_than_the_context_is_refused_in_one_line(text, tinyllm, tmp_path):
    (tmp_path / "short").write_bytes(text)
    line = refused(*tinyllm("train", "--data", tmp_path / "short"))
    assert f"{len(text) * 9 // 10} symbols" in line and "too few" in line and "129" in line and "tenth" in line
    assert not os.listdir()


@pytest.mark.parametrize("source", ["no-such-file", "/", "secret"])
def test_any_text_that_cannot_be_read_is_named_in_one_line(source, tinyllm, tmp_path):
    if source == "secret":
        (tmp_path / "secret").write_bytes(TEXT)
        (tmp_path / "secret").chmod(0)
        with tempfile.TemporaryDirectory() as folder:  # tmp_path is inside a folder that is root's alone
            os.chmod(folder, 0o777)
            with nobody():
                line = refused(*tinyllm("train", "--data", tmp_path / "secret", "--out", f"{folder}/model"))
            assert not os.listdir(folder)
    else:
        line = refused(*tinyllm("train", "--data", source))
    assert source in line and not os.listdir()


def test_an_encoding_that_is_named_is_used(tinyllm, tmp_path):
    (tmp_path / "novel").write_bytes(("滚滚长江东逝水，浪花淘尽英雄。是非成败转头空。" * 30).encode("gb18030"))
    assert "GB18030" in refused(*tinyllm("train", "--data", tmp_path / "novel", "--steps", 1))
    assert "abacus" in refused(*tinyllm("train", "--data", tmp_path / "novel", "--steps", 1, "--encoding", "abacus"))
    assert not os.listdir()
    assert tinyllm("train", "--data", tmp_path / "novel", "--steps", 1, "--encoding", "gb18030")[0] == 0


@pytest.mark.parametrize("source", ["-", "process substitution"])
def test_any_text_through_a_pipe(source, tinyllm):
    end, begin = os.pipe()
    os.write(begin, TEXT)
    os.close(begin)
    with standard_input(end):
        run = tinyllm("train", "--steps", 1, "--data", "-" if source == "-" else f"/dev/fd/{end}")
    os.close(end)
    assert run[0] == 0 and "val_loss" in run[1]


# ------------------------------------------------------------------ generate: any prompt and setting

def test_generate_continues_the_prompt(tinyllm):
    status, out, _ = tinyllm("generate", "The ", "--tokens", 20, "--seed", 1)
    assert status == 0 and out.startswith("The ") and len(out) > 20
    assert tinyllm("generate", "The ", "--tokens", 20, "--seed", 1)[1] == out
    assert not os.listdir()


@pytest.mark.parametrize("prompt", ["é中🙂", "\0", "x" * 500, "--", "-x"], ids=ascii)
def test_any_prompt_is_continued(prompt, tinyllm):
    status, out, err = tinyllm("generate", "--tokens", 2, "--", prompt)
    assert status == 0 and not err and out.startswith(prompt.encode("utf-8", "replace").decode())


@pytest.mark.parametrize("arguments", [["--tokens", 0], ["--temperature", 0], ["--top-k", 1000], ["--temperature", "1e300"]])
def test_any_setting_in_range_works(arguments, tinyllm):
    status, out, err = tinyllm("generate", "The ", "--tokens", 2, *arguments)
    assert status == 0 and out.startswith("The ") and not err


def test_any_prompt_that_is_not_utf8_comes_back_byte_for_byte():
    process = start("generate", b"\xff\xfe caf\xc3", "--tokens", 2)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0 and not err and out.startswith(b"\xff\xfe caf\xc3")


@pytest.mark.parametrize("arguments, says", [
    ([""], "empty"), (["a", "--temperature", "-1"], "-1"), (["a", "--temperature", "nan"], "nan"), (["\ud800"], "surrogates"),
    (["a", "--temperature", "inf"], "inf"), (["a", "--top-k", "0"], "0"), (["a", "--top-k", "-5"], "-5"),
    (["a", "--top-k", "2.5"], "2.5"), (["a", "--tokens", "-3"], "-3"), (["a", "--tokens", "x"], "x"), (["a", "--seed", ""], "seed"),
    (["a", "--model", "nowhere"], "nowhere"), (["a", "--model", "/"], "/"), (["a", "--model", ""], "directory"), ([], "prompt"),
    (["a", "--no-such-option"], "no-such-option")], ids=ascii)
def test_any_prompt_or_setting_that_cannot_be_is_one_line(arguments, says, tinyllm):
    status, out, err = tinyllm("generate", *arguments)
    assert says in refused(status, out, err) and not out.strip()


@pytest.mark.parametrize("name", ["empty", "truncated", "not finite", "pickle", "another program's"])
def test_any_checkpoint_that_is_none_is_one_line(name, tinyllm, tmp_path):
    TinyLLM().save(tmp_path / name)
    whole = (tmp_path / name).read_bytes()
    damaged = {"empty": b"", "truncated": whole[:5000], "not finite": whole[:-4] + b"\xff\xff\xff\x7f",
               "pickle": b"\x80\x04K\x01.", "another program's": save({"weight": torch.zeros(3)})}
    (tmp_path / name).write_bytes(damaged[name])
    for command in (["generate", "a", "--model"], ["inspect", "a", "--model"], ["train", "--init"]):
        assert name in refused(*tinyllm(*command, tmp_path / name))
    assert not os.listdir()


# ------------------------------------------------------------------ inspect

def test_inspect_prints_ledger_shapes_and_next_symbols(tinyllm):
    status, text, _ = tinyllm("inspect", "the q")
    assert status == 0 and "98,816" in text and "(1, 4, 5, 5)" in text
    *_, table = text.split("\n\n")
    names, probabilities = zip(*(line.split() for line in table.splitlines()))
    assert len(names) == 10 and names[0] == "u"
    assert [float(p) for p in probabilities] == pytest.approx([p for _, p in next_symbols(TinyLLM.pretrained(), "the q")], abs=1e-4)


def test_an_empty_prompt_is_one_line(tinyllm):
    assert "empty" in refused(*tinyllm("inspect", ""))


# ------------------------------------------------------------------ help

@pytest.mark.parametrize("command", ["train", "generate", "inspect"])
def test_every_option_is_explained(command, tinyllm):
    status, text, _ = tinyllm(command, "--help")
    options = [line for line in text.splitlines() if line.startswith("  --")]
    assert status == 0 and options
    for line in options:
        assert len(line.split("  ")) > 2 or text.splitlines()[text.splitlines().index(line) + 1].startswith(" " * 20), line


def test_no_command_is_refused(tinyllm):
    refused(*tinyllm())


# ------------------------------------------------------------------ the process

def test_help_does_not_wait_for_torch():
    code = "import sys; from tinyllm.cli import main\ntry: main(['--help'])\nexcept SystemExit: assert 'torch' not in sys.modules"
    run = subprocess.run([sys.executable, "-c", code], env=ENVIRONMENT, capture_output=True)
    assert run.returncode == 0 and b"inspect" in run.stdout, run.stderr


def test_the_exit_status_of_the_process():
    process = start("train", "--out", "")
    out, err = process.communicate(timeout=60)
    assert "cannot save" in refused(process.returncode, out, err.decode())


def test_ctrl_c_ends_a_generation_without_a_traceback():
    process = start("generate", "a", "--tokens", 10**6)
    process.stdout.read(3)
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=60)
    assert process.returncode == 130 and not stderr


def test_what_a_terminal_cannot_show_does_not_end_the_text():
    """As where Windows writes into a file: no character outside cp1252 exists there."""
    process = start("generate", "тест", "--tokens", 5, env=ENVIRONMENT | {"PYTHONIOENCODING": "cp1252"})
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0 and not err and out.startswith(b"????") and len(out) > 8


def test_output_cut_off_is_no_error():
    process = start("generate", "a", "--tokens", 2000)
    process.stdout.read(1)
    process.stdout.close()
    assert not process.stderr.read()
    process.wait(60)


@pytest.mark.slow
def test_what_goes_wrong_under_torchrun_is_said_and_ends_every_process(tmp_path):
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m", "tinyllm"]
    run = subprocess.run([*command, "train", "--data", "no-such-file", "--device", "cpu"], env=ENVIRONMENT, cwd=tmp_path,
                         capture_output=True, text=True, timeout=300)
    lines = [line for line in run.stderr.splitlines() if line.startswith("tinyllm: ")]
    assert run.returncode and lines and all("no-such-file" in line for line in lines), run.stderr
    assert not os.listdir(tmp_path)


# ------------------------------------------------------------------ nothing unexpected

def test_nothing_unexpected_no_command_opens_a_connection(tinyllm, data, monkeypatch):
    def connect(*arguments, **options):
        pytest.fail(f"a connection to {arguments}")

    for name in ("connect", "connect_ex", "sendto"):
        monkeypatch.setattr(socket.socket, name, connect)
    monkeypatch.setattr(socket, "getaddrinfo", connect)
    assert tinyllm("train", "--data", data, "--steps", 1)[0] == 0
    assert tinyllm("generate", "a", "--tokens", 2)[0] == 0
    assert tinyllm("inspect", "a")[0] == 0
    with pytest.raises(pytest.fail.Exception):
        socket.create_connection(("localhost", 9))  # it would have been noticed


MODULES = sorted((ROOT / "tinyllm").glob("*.py"))
FORBIDDEN = {"eval", "exec", "compile", "__import__", "pickle", "marshal", "shelve", "subprocess", "system", "torch.load",
             "ctypes", "urllib", "requests", "socket"}


def names(code):
    """Every name, `torch.load` as a whole, and every imported module of a program."""
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.Attribute):
            yield from {node.attr, ast.unparse(node)} - {"eval", "compile"}  # model.eval, re.compile
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            modules = [alias.name for alias in node.names] if isinstance(node, ast.Import) else [node.module]
            yield from [part for module in modules for part in (module, module.split(".")[0])]
            yield from [alias.name for alias in node.names]


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.stem)
def test_nothing_unexpected_no_module_can_run_data_as_code(path):
    assert not FORBIDDEN & set(names(path.read_text(encoding="utf-8")))


@pytest.mark.parametrize("code", ["eval(x)", "import pickle", "from pickle import loads", "torch.load(f)", "os.system(x)",
                                  "from os import system", "import urllib.request", "f = exec"])
def test_code_that_runs_data_would_be_found(code):
    assert FORBIDDEN & set(names(code))


def test_nothing_unexpected_is_imported():
    """Python's own modules, and the dependencies that pyproject.toml names."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    allowed = sys.stdlib_module_names | {re.match(r"[\w-]+", line)[0].replace("-", "_") for line in project["dependencies"]} | {"tinyllm"}
    for path in MODULES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, (ast.Import, ast.ImportFrom)):
                modules = [alias.name for alias in node.names] if isinstance(node, ast.Import) else [node.module]
                assert {module.split(".")[0] for module in modules} <= allowed, path
