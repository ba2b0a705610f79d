"""Characters to ids and back, and the texts a model can be trained on."""

import os
import pydoc_data.topics
import threading
from contextlib import contextmanager

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tinyllm import decode, encode, load_text, split, symbol


@given(st.text())
def test_any_text_comes_back(text):
    ids = encode(text)
    assert ids.dtype == torch.int64 and ids.shape == (len(text.encode()),)
    assert decode(ids) == text


@given(st.binary())
def test_any_text_of_a_command_line_comes_back_even_if_it_is_not_utf8(data):
    """What is not UTF-8 reaches Python as surrogate escapes; as ids they are the bytes again."""
    assert encode(data.decode("utf-8", "surrogateescape")).tolist() == list(data)


@given(st.characters(max_codepoint=127))
def test_an_ascii_character_is_its_ord(character):
    assert encode(character).tolist() == [ord(character)]


def test_broken_characters_decode_to_the_replacement_character():
    assert decode(encode("é")[:1]) == "\N{REPLACEMENT CHARACTER}"


@pytest.mark.parametrize("wrong", ["\ud800", None, 5, b"bytes"])
def test_what_is_no_text_cannot_be_encoded(wrong):
    with pytest.raises((ValueError, TypeError, AttributeError), match="encode"):
        encode(wrong)


@pytest.mark.parametrize("wrong", [[256], [-1], [1.5], [[1]], "text"])
def test_what_are_no_ids_cannot_be_decoded(wrong):
    with pytest.raises((ValueError, TypeError)):
        decode(wrong)


def test_every_symbol_has_a_label_of_its_own():
    labels = [symbol(i) for i in range(256)]
    assert len(set(labels)) == 256 and all(label.isprintable() and label.strip() for label in labels)
    assert [symbol(i) for i in (101, 32, 10, 228, 92, 39)] == ["e", "␣", r"\n", r"\xe4", r"\\", "'"]
    assert symbol(300) == "#300"  # of a larger vocabulary


def test_the_default_text_is_the_language_reference():
    text = load_text()
    assert len(text) > 300_000 and "The Python" in text and "expression" in text
    assert all(page in text for page in pydoc_data.topics.topics.values())
    assert encode(text).tolist() == list(text.encode())  # nothing in it is no UTF-8
    assert text == load_text()


@pytest.mark.parametrize("length, held_out", [(1003, 101), (1000, 100), (10, 1), (1, 1), (0, 0)])
def test_split_holds_out_the_last_tenth(length, held_out):
    training, validation = split(torch.arange(length))
    assert torch.cat([training, validation]).equal(torch.arange(length)) and len(validation) == held_out


# ------------------------------------------------------------------ any text, from any place

TEXTS = {"empty": b"", "one symbol": b"x", "Windows line ends": b"one\r\ntwo\r\n", "BOM": b"\xef\xbb\xbfBOM",
         "Chinese": "中文".encode(), "emoji": "🙂👩‍👩‍👧".encode(), "invalid UTF-8": b"\xff\xc3\x28\xfe", "NUL bytes": b"a\0\0b"}


@pytest.mark.parametrize("name", TEXTS)
@pytest.mark.parametrize("kind", [str, lambda path: path], ids=["str", "Path"])
def test_any_text_is_its_bytes(name, kind, tmp_path):
    path = tmp_path / "text"
    path.write_bytes(TEXTS[name])
    ids = encode(load_text(kind(path)))
    assert ids.dtype == torch.int64 and bytes(ids.tolist()) == TEXTS[name]
    assert decode(ids) == TEXTS[name].decode("utf-8", "replace")


@given(data=st.binary())
def test_any_file_comes_back_byte_for_byte(data, tmp_path_factory):
    path = tmp_path_factory.getbasetemp() / "any file"
    path.write_bytes(data)
    assert bytes(encode(load_text(path)).tolist()) == data
    assert path.read_bytes() == data  # and the file is as it was


def test_what_is_utf8_is_the_text_itself(tmp_path):
    path = tmp_path / "text"
    path.write_bytes("one\r\ntwo\n\N{BOM}é中🙂".encode())
    assert load_text(path) == "one\r\ntwo\n\N{BOM}é中🙂"


def test_any_text_from_a_named_pipe_is_read_to_its_end(tmp_path):
    fifo = tmp_path / "pipe"
    os.mkfifo(fifo)
    writer = threading.Thread(target=fifo.write_bytes, args=(b"through a pipe" * 9999,))
    writer.start()
    assert load_text(fifo) == "through a pipe" * 9999
    writer.join()


@contextmanager
def standard_input(file):
    """File descriptor 0 is this file or pipe, and sys.stdin reads from there."""
    saved = os.dup(0)
    os.dup2(file, 0)
    try:
        with open(0, closefd=False) as stdin, pytest.MonkeyPatch.context() as patch:
            patch.setattr("sys.stdin", stdin)
            yield
    finally:
        os.dup2(saved, 0)
        os.close(saved)


def test_any_text_from_standard_input_be_it_a_file_or_a_pipe(tmp_path):
    (tmp_path / "text").write_bytes(b"from a file\r\n\xff")
    with open(tmp_path / "text", "rb") as file, standard_input(file.fileno()):
        assert load_text("-") == "from a file\r\n\udcff"
    end, start = os.pipe()
    os.write(start, b"from a pipe")
    os.close(start)
    with standard_input(end):
        assert load_text("-") == "from a pipe"
    os.close(end)


@pytest.mark.parametrize("source, error", [("no such file", FileNotFoundError), (".", IsADirectoryError),
                                           ("", IsADirectoryError)], ids=ascii)
def test_any_text_that_is_not_there_is_an_oserror_with_its_name(source, error):
    with pytest.raises(error, match=source or "directory"):
        load_text(source)


@contextmanager
def nobody():
    """Root may read everything: be somebody else for a moment."""
    root = os.geteuid() == 0
    if root:
        os.seteuid(65534)
    try:
        yield
    finally:
        if root:
            os.seteuid(0)


def test_any_text_without_permission_is_an_oserror_with_its_name(tmp_path):
    path = tmp_path / "secret"
    path.write_bytes(b"text")
    path.chmod(0)
    with nobody(), pytest.raises(PermissionError, match="secret"):
        load_text(path)
