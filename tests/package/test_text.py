"""Characters to ids and back, and the texts a model can be trained on."""

import gzip
import io
import os
import pydoc_data.topics
import threading
import zipfile
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
NOT_UTF8 = {"invalid UTF-8", "NUL bytes"}  # taken as they are when they are called UTF-8


@pytest.mark.parametrize("name", TEXTS)
@pytest.mark.parametrize("kind", [str, lambda path: path], ids=["str", "Path"])
def test_any_text_is_its_bytes(name, kind, tmp_path):
    path = tmp_path / "text"
    path.write_bytes(TEXTS[name])
    ids = encode(load_text(kind(path), "utf-8" if name in NOT_UTF8 else None))
    assert ids.dtype == torch.int64 and bytes(ids.tolist()) == TEXTS[name]
    assert decode(ids) == TEXTS[name].decode("utf-8", "replace")


@given(data=st.binary())
def test_any_file_comes_back_byte_for_byte(data, tmp_path_factory):
    path = tmp_path_factory.getbasetemp() / "any file"
    path.write_bytes(data)
    assert bytes(encode(load_text(path, "utf-8")).tolist()) == data
    assert path.read_bytes() == data  # and the file is as it was


def test_what_is_utf8_is_the_text_itself(tmp_path):
    path = tmp_path / "text"
    path.write_bytes("one\r\ntwo\n\N{BOM}é中🙂".encode())
    assert load_text(path) == "one\r\ntwo\n\N{BOM}é中🙂"


PROSE = {"gb18030": "滚滚长江东逝水，浪花淘尽英雄。是非成败转头空，青山依旧在，几度夕阳红。",
         "big5": "滾滾長江東逝水，浪花淘盡英雄。是非成敗轉頭空", "shift_jis": "吾輩は猫である。名前はまだ無い。",
         "utf-16": "A text with a mark at its beginning.", "utf-16-le": "A text without a mark, of ASCII alone.",
         "windows-1252": "Où est passé le garçon ? Là-bas, près de l'église, il était déjà très tôt.",
         "koi8-r": "Все счастливые семьи похожи друг на друга, каждая несчастливая семья несчастлива по-своему."}


@pytest.mark.parametrize("encoding", PROSE)
def test_a_text_in_another_encoding_is_refused_by_its_name_and_read_by_it(encoding, tmp_path):
    path, text = tmp_path / "novel.txt", PROSE[encoding] * 20
    path.write_bytes(text.encode(encoding))
    with pytest.raises(ValueError, match="novel.txt is not UTF-8, it looks like ") as error:
        load_text(path)
    guess = str(error.value).split("looks like ")[1].split(":")[0]
    assert load_text(path, guess) == load_text(path, encoding) == text
    assert encode(load_text(path, "utf-8")).tolist() == list(path.read_bytes())  # as it is


def test_a_single_stray_byte_far_into_a_text_is_noticed(tmp_path):
    path = tmp_path / "book"
    path.write_bytes(b"plain ASCII\n" * 50_000 + b"caf\xe9\n")
    with pytest.raises(ValueError, match="not UTF-8"):
        load_text(path)


@pytest.mark.parametrize("name, kind", [("gzip", "gzip"), ("Word", "wordprocessing"), ("PDF", "pdf"), ("PNG", "png"), ("noise", "octet-stream")])
def test_what_is_no_text_is_said_to_be_what_it_is(name, kind, tmp_path):
    noise = torch.randint(256, (5000,), generator=torch.Generator().manual_seed(0)).tolist()
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("word/document.xml", bytes(noise))
    made = {"gzip": gzip.compress(bytes(noise)), "Word": archive.getvalue(), "PDF": b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n" + bytes(noise),
            "PNG": b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + bytes(noise), "noise": bytes(noise)}
    (tmp_path / name).write_bytes(made[name])
    with pytest.raises(ValueError, match=f"{name} is not UTF-8, it looks like application/.*{kind}|{name} .* image/{kind}"):
        load_text(tmp_path / name)


def test_an_address_is_no_file_and_the_way_to_fetch_it_is_said():
    with pytest.raises(ValueError, match="curl -L https://example.org/book.txt | tinyllm train --data -"):
        load_text("https://example.org/book.txt")


def test_an_unknown_encoding_is_said(tmp_path):
    (tmp_path / "text").write_bytes(b"text")
    with pytest.raises(LookupError, match="abacus"):
        load_text(tmp_path / "text", "abacus")


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
        assert load_text("-", "utf-8") == "from a file\r\n\udcff"
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
