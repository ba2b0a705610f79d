"""Characters to ids and back, and the texts a model can be trained on."""

import email.message
import hashlib
import io
import os
import resource
import sys
import threading
from contextlib import contextmanager

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tinyllm import Config, TinyLLM, decode, encode, load_ids, load_text, split, symbol, train


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
    with pytest.raises((ValueError, TypeError)):
        encode(wrong)


@pytest.mark.parametrize("wrong", [[256], [-1], [1.5], [[1]], "text"])
def test_what_are_no_ids_cannot_be_decoded(wrong):
    with pytest.raises((ValueError, TypeError)):
        decode(wrong)


def test_every_symbol_has_a_label_of_its_own():
    labels = [symbol(i) for i in range(256)]
    assert len(set(labels)) == 256 and all(label.isprintable() and label.strip() for label in labels)
    assert [symbol(i) for i in (101, 32, 10, 228)] == ["e", "␣", r"\n", r"\xe4"]


def test_the_default_text_is_the_language_reference():
    text = load_text()
    assert len(text) > 300_000 and "The Python" in text and "expression" in text
    assert len(load_ids()) == len(text.encode())


def test_split_holds_out_the_last_tenth():
    training, validation = split(torch.arange(1003))
    assert torch.cat([training, validation]).equal(torch.arange(1003)) and len(validation) == 101


# ------------------------------------------------------------------ any text, from any place

TEXTS = {"empty": b"", "one symbol": b"x", "Windows line ends": b"one\r\ntwo\r\n", "BOM": b"\xef\xbb\xbfBOM",
         "Chinese": "中文".encode(), "emoji": "🙂👩‍👩‍👧".encode(), "invalid UTF-8": b"\xff\xc3\x28\xfe", "NUL bytes": b"a\0\0b"}


@pytest.mark.parametrize("name", TEXTS)
def test_any_text_is_its_bytes(name, tmp_path):
    path = tmp_path / "text"
    path.write_bytes(TEXTS[name])
    ids = load_ids(path)
    assert ids.dtype == torch.uint8 and bytes(ids.tolist()) == TEXTS[name]
    assert load_text(str(path)) == TEXTS[name].decode("utf-8", "replace")


def peak_memory():
    """The most memory this process has ever had, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**20 if sys.platform == "darwin" else 2**10)


def test_any_text_of_a_gigabyte_is_trained_on_without_being_read_into_memory(tmp_path):
    with open(tmp_path / "text", "wb") as file:
        file.truncate(10**9)  # zeros that take no space on the disk
    model = TinyLLM(Config(d_model=8, n_heads=2, d_ff=8, n_layers=1, context=8))
    before = peak_memory()
    training, validation = split(load_ids(tmp_path / "text"))
    assert len(training) == 9 * 10**8 and len(validation) == 10**8 and len(train(model, training, steps=3)) == 3
    assert peak_memory() - before < 200


def test_any_text_from_a_named_pipe_is_read_to_its_end(tmp_path):
    fifo = tmp_path / "pipe"
    os.mkfifo(fifo)
    writer = threading.Thread(target=fifo.write_bytes, args=(b"through a pipe" * 9999,))
    writer.start()
    assert bytes(load_ids(fifo).tolist()) == b"through a pipe" * 9999
    writer.join()


@contextmanager
def standard_input(file):
    """File descriptor 0 is this file or pipe."""
    saved = os.dup(0)
    os.dup2(file, 0)
    try:
        yield
    finally:
        os.dup2(saved, 0)
        os.close(saved)


def test_any_text_from_standard_input_be_it_a_file_or_a_pipe(tmp_path):
    (tmp_path / "text").write_bytes(b"from a file")
    with open(tmp_path / "text", "rb") as file, standard_input(file.fileno()):
        assert load_text("-") == "from a file"
    end, start = os.pipe()
    os.write(start, b"from a pipe")
    os.close(start)
    with standard_input(end):
        assert load_text("-") == "from a pipe"
    os.close(end)


@pytest.mark.parametrize("source, error", [("no such file", FileNotFoundError), (".", IsADirectoryError)])
def test_any_text_that_is_not_there_is_an_oserror_with_its_name(source, error):
    with pytest.raises(error, match=source):
        load_ids(source)


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
        load_ids(path)


def test_reading_a_text_does_not_make_it_writable(tmp_path):
    path = tmp_path / "text"
    path.write_bytes(b"precious")
    load_ids(path).fill_(0)
    assert path.read_bytes() == b"precious"


# ------------------------------------------------------------------ nothing unexpected: the one download

URL = "https://raw.githubusercontent.com/karpathy/char-rnn/master/data/tinyshakespeare/input.txt"


class Response(io.BytesIO):
    """What a server sends; it may break off in the middle."""
    breaks_off = False

    def info(self):
        return email.message.Message()

    def read(self, size=-1):
        data = super().read(size)
        if self.breaks_off and not data:
            raise ConnectionResetError("connection reset")
        return data


@pytest.fixture
def cache(monkeypatch, tmp_path):
    monkeypatch.setattr(torch.hub, "get_dir", lambda: str(tmp_path / "hub"))
    return tmp_path / "hub"


def serve(monkeypatch, data, breaks_off=False):
    asked = []

    def urlopen(request, *args, **kwargs):
        asked.append(request.full_url)
        response = Response(data)
        response.breaks_off = breaks_off
        return response

    monkeypatch.setattr("torch.hub.urlopen", urlopen)
    return asked


def test_nothing_unexpected_another_file_than_shakespeare_is_refused_by_its_hash(monkeypatch, cache):
    serve(monkeypatch, b"not Shakespeare")
    with pytest.raises(OSError, match="hash") as error:
        load_ids("shakespeare")
    assert "\n" not in str(error.value) and not list(cache.iterdir())


def test_nothing_unexpected_a_broken_download_leaves_nothing_and_is_retried_and_kept(monkeypatch, cache):
    real, digest = torch.hub.download_url_to_file, hashlib.sha256(b"To be, or not to be").hexdigest()
    expected = []  # the hash that the package asks for, in whose place comes that of a shorter play

    def shorter(url, path, sha256):
        expected.append(sha256)
        real(url, path, digest)

    monkeypatch.setattr(torch.hub, "download_url_to_file", shorter)
    serve(monkeypatch, b"To be, or", breaks_off=True)
    with pytest.raises(OSError, match="reset.*give a file"):
        load_ids("shakespeare")
    assert not list(cache.iterdir())
    asked = serve(monkeypatch, b"To be, or not to be")
    assert [load_text("shakespeare") for _ in range(2)] == ["To be, or not to be"] * 2
    prefix, = set(expected)
    assert "86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed".startswith(prefix) and len(prefix) == 32
    assert asked == [URL]


def test_nothing_unexpected_offline_is_said_in_one_line_and_leaves_nothing(monkeypatch, cache):
    def fail(*args, **kwargs):
        raise OSError("no network")

    monkeypatch.setattr("torch.hub.urlopen", fail)
    with pytest.raises(OSError, match="no network.*give a file") as error:
        load_ids("shakespeare")
    assert "\n" not in str(error.value) and not list(cache.iterdir())
