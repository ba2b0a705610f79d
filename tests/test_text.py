"""Characters to ids and back, and the texts a model can be trained on."""

import email.message
import io
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tinyllm import decode, encode, load_ids, load_text, split, symbol

ROOT = Path(__file__).resolve().parent.parent


@given(st.text())
def test_any_text_comes_back(text):
    ids = encode(text)
    assert ids.dtype == torch.int64 and ids.shape == (len(text.encode()),)
    assert decode(ids) == text


@given(st.binary())
def test_any_bytes_of_a_command_line_come_back(data):
    """What is not UTF-8 reaches Python as surrogate escapes; as ids they are the bytes again."""
    assert encode(data.decode("utf-8", "surrogateescape")).tolist() == list(data)


@given(st.characters(max_codepoint=127))
def test_an_ascii_character_is_its_ord(character):
    assert encode(character).tolist() == [ord(character)]


def test_broken_characters_decode_to_the_replacement_character():
    assert decode(encode("é")[:1]) == "\N{REPLACEMENT CHARACTER}"


def test_a_lone_surrogate_is_no_text():
    with pytest.raises(ValueError):
        encode("\ud800")


@pytest.mark.parametrize("wrong", [[256], [-1]])
def test_ids_out_of_range_are_no_bytes(wrong):
    with pytest.raises(ValueError):
        decode(wrong)


def test_every_symbol_has_a_label_of_its_own():
    labels = [symbol(i) for i in range(256)]
    assert len(set(labels)) == 256 and all(label.isprintable() and label.strip() for label in labels)
    assert [symbol(i) for i in (101, 32, 10, 228)] == ["e", "␣", r"\n", r"\xe4"]


def test_the_default_text_is_the_language_reference():
    text = load_text()
    assert len(text) > 300_000 and "The Python" in text and "expression" in text
    assert len(load_ids()) == len(text.encode())


@pytest.mark.parametrize("data", [b"", b"x", b"\xef\xbb\xbfBOM\r\n", "中文 🙂".encode(), b"\xff\x00\xfe"])
def test_a_file_is_its_bytes(tmp_path, data):
    path = tmp_path / "text"
    path.write_bytes(data)
    ids = load_ids(path)
    assert ids.dtype == torch.uint8 and bytes(ids.tolist()) == data
    assert load_text(str(path)) == data.decode("utf-8", "replace")


def test_reading_a_file_does_not_make_it_writable(tmp_path):
    path = tmp_path / "text"
    path.write_bytes(b"precious")
    load_ids(path).fill_(0)
    assert path.read_bytes() == b"precious"


def test_a_pipe_is_read_to_its_end(tmp_path):
    fifo = tmp_path / "pipe"
    os.mkfifo(fifo)
    writer = threading.Thread(target=fifo.write_bytes, args=(b"through a pipe" * 9999,))
    writer.start()
    assert bytes(load_ids(fifo).tolist()) == b"through a pipe" * 9999
    writer.join()


def test_a_hyphen_is_standard_input(tmp_path):
    (tmp_path / "text").write_bytes(b"from a file")
    code = "from tinyllm import load_text; print(load_text('-'))"
    with open(tmp_path / "text") as file:
        run = subprocess.run([sys.executable, "-c", code], stdin=file, cwd=ROOT, capture_output=True, text=True)
    assert run.stdout == "from a file\n", run.stderr


@pytest.mark.parametrize("source, error", [("no such file", FileNotFoundError), (".", IsADirectoryError)])
def test_what_cannot_be_read_is_an_oserror(source, error):
    with pytest.raises(error):
        load_ids(source)


def test_split_holds_out_the_last_tenth():
    training, validation = split(torch.arange(1003))
    assert torch.cat([training, validation]).equal(torch.arange(1003)) and len(validation) == 101


def test_shakespeare_is_downloaded_once_and_checked(monkeypatch, tmp_path):
    monkeypatch.setattr(torch.hub, "get_dir", lambda: str(tmp_path / "hub"))
    calls = []

    def fetch(url, path, hash_prefix):
        calls.append((url, hash_prefix))
        open(path, "wb").write(b"To be")

    monkeypatch.setattr(torch.hub, "download_url_to_file", fetch)
    assert [load_text("shakespeare") for _ in range(2)] == ["To be", "To be"]
    assert len(calls) == 1 and len(calls[0][1]) == 64


def test_offline_is_said_in_one_line_and_leaves_nothing(monkeypatch, tmp_path):
    monkeypatch.setattr(torch.hub, "get_dir", lambda: str(tmp_path))

    def fail(*args, **kwargs):
        raise OSError("no network")

    monkeypatch.setattr("urllib.request.urlopen", fail)
    monkeypatch.setattr("torch.hub.urlopen", fail)
    with pytest.raises(OSError, match="no network.*give a file") as error:
        load_ids("shakespeare")
    assert "\n" not in str(error.value) and not list(tmp_path.iterdir())


def test_another_file_than_the_expected_one_is_refused(monkeypatch, tmp_path):
    monkeypatch.setattr(torch.hub, "get_dir", lambda: str(tmp_path))

    class Response(io.BytesIO):
        def info(self):
            return email.message.Message()

    monkeypatch.setattr("torch.hub.urlopen", lambda *args, **kwargs: Response(b"not Shakespeare"))
    with pytest.raises(OSError, match="hash"):
        load_ids("shakespeare")
    assert not list(tmp_path.iterdir())
