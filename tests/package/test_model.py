"""The promises made about the model: its sizes, causality, bad input, checkpoints."""

import copy
import json
import os
import random
import resource
import signal
import time
from hashlib import sha256

import pytest
import safetensors.torch
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from test_references import random_model
from test_text import peak_memory
from tinyllm import Config, TinyLLM, encode, ledger
from tinyllm.bricks import Linear

FORBIDDEN = (nn.Linear, nn.Embedding, nn.LayerNorm, nn.MultiheadAttention, nn.Dropout)


def matrices(model):
    return sum(p.numel() for p in model.parameters() if p.dim() == 2)


# ------------------------------------------------------------------ how a model starts

def test_weights_start_uniform_within_one_over_the_root_of_the_inputs():
    torch.manual_seed(0)
    limit, weight = 200**-0.5, Linear(200, 300).weight
    assert weight.abs().max() <= limit and weight.max() > 0.99 * limit and weight.min() < -0.99 * limit
    assert weight.mean().abs() < 0.01 * limit and weight.var().item() == pytest.approx(limit**2 / 3, rel=0.03)
    assert not Linear(2, 3, bias=True).bias.any()


# ------------------------------------------------------------------ the ledger

def test_the_ledger():
    model = TinyLLM()
    assert matrices(model) == 98_304
    assert sum(p.numel() for p in model.parameters()) == 98_816
    assert sum(p.numel() for p in TinyLLM(Config(bias=True)).parameters()) == 99_968
    assert sum(p.numel() for p in TinyLLM(Config(d_ff=256)).parameters()) == 131_584
    assert ledger(model)["total"] == 98_816 and "98,816" in str(ledger(model))


def test_nothing_but_our_own_bricks():
    assert not [m for m in TinyLLM(Config(norm_first=True, bias=True)).modules() if isinstance(m, FORBIDDEN)]


def test_printing_shows_the_sizes_of_every_brick():
    text = str(TinyLLM())
    for part in ("256 symbols -> 64", "64 -> 128", "128 -> 64", "64 -> 256", "(scores): HookPoint(B, H, T, T)"):
        assert part in text


def test_weights_are_not_tied_and_nothing_is_learned_about_positions():
    model = TinyLLM()
    assert model.embedding.weight.data_ptr() != model.head.weight.data_ptr()
    assert not list(model.positions.parameters()) and "positions.table" not in model.state_dict()


# ------------------------------------------------------------------ causality

@given(j=st.integers(0, 63), symbol=st.integers(0, 255), seed=st.integers(0, 99), norm_first=st.booleans())
@settings(deadline=None, max_examples=40)
def test_no_prediction_sees_the_future(j, symbol, seed, norm_first):
    model = random_model(seed, norm_first=norm_first, context=64)
    ids = torch.randint(256, (1, 64))
    changed = ids.clone()
    changed[0, j] = symbol
    same = (model(ids) == model(changed)).all(-1)[0]
    assert same[:j].all(), "a prediction before the change moved"
    assert same.all() == (ids[0, j] == symbol), "the change did not reach the predictions after it"


def test_a_shorter_text_gives_the_same_predictions():
    model, ids = random_model(), torch.randint(256, (1, 40))
    torch.testing.assert_close(model(ids)[:, :17], model(ids[:, :17]), rtol=1e-5, atol=1e-5)


# ------------------------------------------------------------------ bad input

@pytest.mark.parametrize("sizes, says", [
    (dict(d_model=0), "d_model=0"), (dict(n_layers=-1), "n_layers=-1"), (dict(context=2.0), "context=2.0"),
    (dict(vocab_size="256"), "vocab_size='256'"), (dict(bias=1), "bias=1"), (dict(n_heads=True), "n_heads=True"),
    (dict(d_model=66), "66"), (dict(d_model=9, n_heads=3), "even"), (dict(context=float("nan")), "nan")])
def test_any_setting_of_sizes_that_cannot_be_built_is_named(sizes, says):
    with pytest.raises(ValueError, match=says):
        Config(**sizes)


@pytest.mark.parametrize("ids, says", [
    (torch.zeros(1, 65, dtype=torch.long), "64"), (torch.zeros(64, dtype=torch.long), "shape|B, T"),
    (torch.zeros(1, 3), "float32"), (torch.zeros(1, 3, dtype=torch.int32), "int32"),
    (torch.tensor([[0, 256]]), "255.*256"), (torch.tensor([[-1, 0]]), "-1")])
def test_any_ids_that_are_none_are_named(ids, says):
    with pytest.raises(ValueError, match=says):
        TinyLLM(Config(context=64))(ids)


def test_no_symbols_no_predictions():
    assert TinyLLM()(torch.zeros(2, 0, dtype=torch.long)).shape == (2, 0, 256)


# ------------------------------------------------------------------ checkpoints that come back

@pytest.mark.parametrize("sizes", [{}, dict(bias=True, norm_first=True, d_model=8, context=7)])
def test_a_checkpoint_comes_back(tmp_path, sizes):
    model = random_model(**sizes)
    model.save(tmp_path / "model.safetensors")
    loaded = TinyLLM.load(tmp_path / "model.safetensors")
    assert loaded.config == model.config and list(tmp_path.iterdir()) == [tmp_path / "model.safetensors"]
    ids = encode("same")[None]
    assert loaded(ids).equal(model(ids))


def test_the_same_model_is_the_same_file(tmp_path):
    for name in "ab":
        random_model().save(tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


@pytest.mark.parametrize("kind", ["tied", "transposed", "half precision", "double precision"])
def test_a_model_that_is_stored_in_another_way_is_saved_as_numbers(tmp_path, kind):
    model = random_model()
    if kind == "tied":
        model.head.weight = model.embedding.weight
    elif kind == "transposed":
        model.head.weight = nn.Parameter(model.head.weight.detach().T.contiguous().T)
    else:
        model = model.half() if kind.startswith("half") else model.double()
    model.save(tmp_path / "model")
    loaded = TinyLLM.load(tmp_path / "model")
    for name, weight in model.state_dict().items():
        assert loaded.state_dict()[name].equal(weight.float()), name


def test_saving_through_a_link_keeps_the_link(tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "latest").symlink_to(tmp_path / "elsewhere" / "model")
    random_model().save(tmp_path / "latest")
    assert (tmp_path / "latest").is_symlink() and TinyLLM.load(tmp_path / "elsewhere" / "model")


# ------------------------------------------------------------------ any checkpoint

def whole(path):
    """The bytes of a checkpoint of a small model."""
    random_model(d_model=8, n_heads=2, d_ff=8, n_layers=1).save(path)
    return path.read_bytes()


def refused(path, data=None):
    """load says in one line that this is no checkpoint; returns the line."""
    if data is not None:
        path.write_bytes(data)
    with pytest.raises(ValueError, match="no TinyLLM checkpoint") as error:
        TinyLLM.load(path)
    line = str(error.value)
    assert line.startswith(str(path)) and "\n" not in line and len(line) < len(str(path)) + 250
    return line


def sealed(weights, sizes, **metadata):
    """A file as save() makes it, its checksum included, with any weights and any sizes."""
    data = safetensors.torch.save(weights, {"tinyllm": json.dumps({**sizes, "sha256": "0" * 64}), **metadata})
    return data.replace(b"0" * 64, sha256(data).hexdigest().encode(), 1)


def test_any_checkpoint_missing_or_a_folder(tmp_path):
    with pytest.raises(FileNotFoundError, match="nowhere"):
        TinyLLM.load(tmp_path / "nowhere")
    with pytest.raises(OSError, match=tmp_path.name):
        TinyLLM.load(tmp_path)


def test_any_checkpoint_empty_or_truncated_at_every_1000th_byte(tmp_path):
    TinyLLM().save(tmp_path / "model")
    data = (tmp_path / "model").read_bytes()
    for length in range(0, len(data), 1000):
        refused(tmp_path / "model", data[:length])
    refused(tmp_path / "model", data + b"more")


@pytest.mark.parametrize("part", ["header", "weights"])
def test_any_checkpoint_with_a_flipped_bit_is_refused(part, tmp_path):
    data = whole(tmp_path / "model")
    start = 8 + int.from_bytes(data[:8], "little")
    places = range(start) if part == "header" else range(start, len(data))
    chance = random.Random(0)
    for _ in range(500):
        flipped = bytearray(data)
        flipped[chance.choice(places)] ^= 1 << chance.randrange(8)
        refused(tmp_path / "model", flipped)


def test_any_checkpoint_with_an_edited_header_is_refused(tmp_path):
    data = whole(tmp_path / "model")
    for old, new in ((b'context\\": 128', b'context\\": 132'), (b'n_heads\\": 2', b'n_heads\\": 4'),
                     (b'norm_first\\": false', b'norm_first\\": true '), (b'"F32"', b'"I32"'), (b"query", b"qvery")):
        assert old in data
        refused(tmp_path / "model", data.replace(old, new))


def test_any_checkpoint_of_another_program_or_version_is_refused(tmp_path):
    model = TinyLLM()
    weights, sizes = model.state_dict(), vars(model.config)
    refused(tmp_path / "another model", safetensors.torch.save({"x": torch.zeros(3)}))
    refused(tmp_path / "no sizes", safetensors.torch.save(weights, {"format": "pt"}))
    assert "sha256" in refused(tmp_path / "no checksum", safetensors.torch.save(weights, {"tinyllm": json.dumps(sizes)}))
    newer = refused(tmp_path / "newer", sealed(weights, {**sizes, "rope": True}))
    assert "version" in newer and "rope" in newer
    assert "Missing key" in refused(tmp_path / "other tensors", sealed({"x": torch.zeros(3)}, sizes))
    for text in ("{", "[]", "5", "null", '{"sha256": 5}', '{"sha256": "\\ud800"}', "[" * 100_000):
        refused(tmp_path / "no json", safetensors.torch.save(weights, {"tinyllm": text}))


def test_any_checkpoint_that_is_a_pickle_is_refused_and_runs_no_code(tmp_path):
    class Bomb:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "exploded"),)

    torch.save({"weights": Bomb()}, tmp_path / "pickle")
    refused(tmp_path / "pickle")
    assert not (tmp_path / "exploded").exists()
    torch.load(tmp_path / "pickle", weights_only=False)  # what a less careful loader does
    assert (tmp_path / "exploded").exists()


@pytest.mark.parametrize("claim", [
    dict(context=20_000), dict(n_layers=10**9), dict(n_layers=1000, context=8), dict(d_model=30_000), dict(d_model=10**30),
    dict(d_ff=10**12), dict(vocab_size=10**15), dict(context=10**400), dict(n_heads=2**62), dict(d_model=float("inf")),
    dict(d_model=32), dict(norm_first=True), dict(bias=True), dict(n_layers=3), dict(n_layers=1)])
def test_any_checkpoint_whose_sizes_its_weights_do_not_have_is_refused_at_once(claim, tmp_path):
    """Even with a checksum that is right: quickly, and without taking the memory that it asks for."""
    model = TinyLLM()
    data = sealed(model.state_dict(), {**vars(model.config), **claim})
    start, before = time.perf_counter(), peak_memory()
    refused(tmp_path / "model", data)
    assert time.perf_counter() - start < 2 and peak_memory() - before < 100


# ------------------------------------------------------------------ any moment of saving

def test_any_checkpoint_killed_while_it_is_saved_is_the_old_one_or_the_new_one(tmp_path):
    path, models, seen = tmp_path / "model", [random_model(seed) for seed in (1, 2)], set()
    models[0].save(path)
    chance = random.Random(0)
    for kill in range(40):
        child = os.fork()
        if not child:
            try:
                while True:  # until it is killed
                    for model in models:
                        model.save(path)
            finally:
                os._exit(1)
        time.sleep(chance.uniform(0.01, 0.06))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        weight = TinyLLM.load(path).head.weight
        seen |= {i for i, model in enumerate(models) if weight.equal(model.head.weight)}
        assert any(weight.equal(model.head.weight) for model in models), kill
    assert seen == {0, 1}  # they were really saving


def test_any_checkpoint_is_the_old_one_after_the_disk_was_full(tmp_path):
    """A limit on the size of files makes the system refuse the rest of the bytes, as a full disk does."""
    path = tmp_path / "model"
    before = whole(path)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    for limit in (0, 1, 1000, len(before), 100_000):
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limits[1]))
        try:
            with pytest.raises(OSError):
                TinyLLM().save(path)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        assert path.read_bytes() == before and list(tmp_path.iterdir()) == [path]
