"""The promises made about the model: its sizes, causality, bad input, checkpoints."""

import json
import os
import random
import resource
import signal
import sys
import time
from dataclasses import FrozenInstanceError

import numpy as np
import pytest
import safetensors.torch
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from test_references import random_model
from tinyllm import Config, TinyLLM, encode, evaluate, generate, ledger, next_symbols, train
from tinyllm.model import Attention, Block, Embedding, FeedForward, HookPoint, LayerNorm, Linear, Positions

FORBIDDEN = (nn.Linear, nn.Embedding, nn.LayerNorm, nn.MultiheadAttention, nn.Dropout, nn.Identity)


def peak_memory():
    """The most memory this process has ever had, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**20 if sys.platform == "darwin" else 2**10)


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
    lines = ledger(model).splitlines()
    assert lines[-1].split() == ["total", "98,816"] and len(lines) == 2 + len(model.state_dict()) + 1
    assert lines[-2].split() == ["head.weight", "(256,", "64)", "16,384"]


def test_nothing_but_our_own_bricks():
    """A brick that computes is no identity with something added: only a hook point returns what it gets."""
    ours = (TinyLLM, Block, Attention, FeedForward, Embedding, Linear, LayerNorm, Positions, HookPoint)
    for module in TinyLLM(Config(norm_first=True, bias=True)).modules():
        assert not isinstance(module, FORBIDDEN) and type(module) in (*ours, nn.ModuleList)
        assert isinstance(module, HookPoint) == (type(module) is HookPoint)
    x = torch.randn(2, 3)
    assert HookPoint("2, 3")(x) is x


def test_printing_shows_the_sizes_of_every_brick():
    text = str(TinyLLM(Config(norm_first=True)))
    for part in ("(embedding): Embedding(256 symbols -> 64)", "(positions): Positions(128 positions)", "(mask): HookPoint(T, T)",
                 "(query): Linear(64 -> 64)", "(q): HookPoint(B, H, T, D)", "(scores): HookPoint(B, H, T, T)",
                 "(weights): HookPoint(B, H, T, T)", "(mix): HookPoint(B, H, T, D)", "(sum1): HookPoint(B, T, C)",
                 "(norm1): LayerNorm(64 -> 64)", "(up): Linear(64 -> 128)", "(hidden): HookPoint(B, T, d_ff)",
                 "(down): Linear(128 -> 64)", "(sum2): HookPoint(B, T, C)", "(norm): LayerNorm(64 -> 64)", "(head): Linear(64 -> 256)"):
        assert part in text
    assert str(Linear(3, 2, bias=True)) == "Linear(3 -> 2, bias)" and str(Embedding(5, 4)) == "Embedding(5 symbols -> 4)"


def test_weights_are_not_tied_and_nothing_is_learned_about_positions():
    model = TinyLLM()
    assert model.embedding.weight.data_ptr() != model.head.weight.data_ptr()
    assert not list(model.positions.parameters()) and not list(model.buffers())


@pytest.mark.parametrize("sizes", [{}, dict(norm_first=True, bias=True)])
def test_what_is_saved_has_the_names_it_always_had(sizes):
    """Files out there hold these names: to change one is to break them."""
    names = ["embedding.weight"]
    for i in range(2):
        block = ["attention.query", "attention.key", "attention.value", "attention.output", "norm1", "ffn.up", "ffn.down", "norm2"]
        names += [f"blocks.{i}.{part}.weight" for part in block]
        names += [f"blocks.{i}.{part}.bias" for part in block if sizes or part.startswith("norm")]
    names += ["head.weight"] + ["norm.weight", "norm.bias", "head.bias"] * bool(sizes)
    assert sorted(TinyLLM(Config(**sizes)).state_dict()) == sorted(names)


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


# ------------------------------------------------------------------ other symbols than bytes

@pytest.mark.parametrize("symbols", [1, 10, 300])
def test_any_number_of_symbols_trains_and_comes_back(symbols, tmp_path):
    torch.manual_seed(0)
    model = TinyLLM(Config(vocab_size=symbols, d_model=8, n_heads=2, d_ff=8, n_layers=1, context=8))
    ids = torch.arange(99) % symbols
    assert model(ids[None, :5]).shape == (1, 5, symbols)
    losses = train(model, ids, steps=3)
    assert len(losses) == 3 and all(0 <= loss < 99 for loss in losses) and evaluate(model, ids) >= 0
    with pytest.raises(ValueError, match=rf"ids must be in 0\.\.{symbols - 1}"):
        model(torch.tensor([[symbols]]))
    model.save(tmp_path / "model")
    assert TinyLLM.load(tmp_path / "model")(ids[None, :5]).equal(model(ids[None, :5]))


def test_only_a_model_of_bytes_reads_and_writes_text():
    many, few = TinyLLM(Config(vocab_size=300)), TinyLLM(Config(vocab_size=100))
    with pytest.raises(ValueError, match="bytes"):
        generate(many, "text")  # at the call
    with pytest.raises(ValueError, match=r"0\.\.99"):
        generate(few, "text")
    assert {name for name, _ in next_symbols(many, "text", top=300)} >= {"e", "#256", "#299"}
    assert len(list(generate(few, "A", tokens=3))) == 3


# ------------------------------------------------------------------ what PyTorch's own tools make of it

def test_a_model_can_be_exported_for_one_shape():
    model, ids = random_model(d_model=8, n_heads=2, d_ff=8, context=16), torch.randint(256, (2, 16))
    program = torch.export.export(model, (ids,)).module()
    for other in (ids, torch.randint(256, (2, 16))):
        torch.testing.assert_close(program(other), model(other))


@pytest.mark.parametrize("norm_first", [False, True])
def test_a_model_without_memory_gives_shapes_and_then_takes_weights(norm_first):
    """The way of big models: built on the meta device, given memory, then filled."""
    filled, ids = random_model(norm_first=norm_first), torch.randint(256, (2, 16))
    with torch.device("meta"):
        model = TinyLLM(Config(norm_first=norm_first))
        assert model(torch.zeros(2, 16, dtype=torch.long)).shape == (2, 16, 256)
    assert model(ids.to("meta")).shape == (2, 16, 256)
    model.to_empty(device="cpu")
    model.load_state_dict(filled.state_dict())
    assert model(ids).equal(filled(ids))


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_a_model_of_another_precision_computes_in_it(dtype):
    """The mask and the waves follow the vectors."""
    model, ids = random_model(), torch.randint(256, (2, 16))
    expected = model(ids)
    logits = model.to(dtype)(ids)
    assert logits.dtype == dtype and (logits - expected).abs().max() < (1e-4 if dtype == torch.float64 else 0.1) * expected.abs().max()


# ------------------------------------------------------------------ bad input

def test_the_sizes_of_a_model_that_was_built_cannot_be_changed():
    with pytest.raises(FrozenInstanceError):
        TinyLLM().config.d_model = 32


@pytest.mark.parametrize("sizes, says", [
    (dict(d_model=0), "d_model .* not 0"), (dict(n_layers=-1), "n_layers .* not -1"), (dict(context=2.0), "context .* not 2.0"),
    (dict(vocab_size="256"), "vocab_size .* not '256'"), (dict(bias=1), "bias .* not 1"), (dict(n_heads=True), "n_heads .* not True"),
    (dict(norm_first=None), "norm_first .* not None"), (dict(d_ff=0), "d_ff .* not 0"), (dict(d_ff=None), "d_ff .* not None"),
    (dict(d_model=66), "66"), (dict(d_model=9, n_heads=3), "even"), (dict(context=float("nan")), "nan")])
def test_any_setting_of_sizes_that_cannot_be_built_is_named(sizes, says):
    with pytest.raises(ValueError, match=says):
        Config(**sizes)


def test_sizes_may_be_integers_of_numpy(tmp_path):
    config = Config(d_model=np.int64(8), n_heads=np.uint8(2), d_ff=np.int32(8), n_layers=np.int16(1), context=np.int64(9))
    assert config == Config(d_model=8, n_heads=2, d_ff=8, n_layers=1, context=9)
    model, ids = TinyLLM(config), encode("numbers")[None]
    model.save(tmp_path / "model")
    loaded = TinyLLM.load(tmp_path / "model")
    assert loaded.config == config and loaded(ids).equal(model(ids))
    for wrong in (dict(context=np.float64(9)), dict(context=np.int64(0)), dict(n_layers=np.bool_(True)), dict(bias=np.int64(1))):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            Config(**wrong)


@pytest.mark.parametrize("config", [{}, dict(d_model=64), "d_model=64\n" * 99, 64, None, Config], ids=repr)
def test_anything_but_a_config_is_refused_in_one_line(config):
    with pytest.raises(ValueError, match="not a Config") as error:
        TinyLLM(config)
    assert len(str(error.value)) < 99 and "\n" not in str(error.value)


@pytest.mark.parametrize("ids, says", [
    ("hello", "int64.*B, T.*encode"), (b"hello", "int64"), ([[1, 2]], "int64"), ({"ids": 1}, "int64"), (None, "int64"), (7, "int64"),
    (np.zeros((1, 3), dtype=np.int64), "int64"),
    (torch.zeros(64, dtype=torch.long), "B, T"), (torch.zeros(1, 1, 3, dtype=torch.long), "B, T"),
    (torch.zeros(1, 3), "int64"), (torch.zeros(1, 3, dtype=torch.int32), "int64"), (torch.zeros(1, 3, dtype=torch.bool), "int64"),
    (torch.zeros(1, 65, dtype=torch.long), "65 symbols.*context of 64"),
    (torch.tensor([[0, 256]]), r"0\.\.255"), (torch.tensor([[-1, 0]]), r"0\.\.255")], ids=lambda x: repr(x)[:30])
def test_any_ids_that_are_none_are_refused_in_one_line(ids, says):
    with pytest.raises(ValueError, match=says) as error:
        TinyLLM(Config(context=64))(ids)
    assert "\n" not in str(error.value)


def test_the_last_id_and_a_full_context_are_fine():
    model = TinyLLM(Config(context=64))
    assert model(torch.tensor([[0, 255]])).shape == (1, 2, 256) and model(torch.full((1, 64), 255)).shape == (1, 64, 256)


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
        assert loaded.state_dict()[name].dtype == torch.float32 and loaded.state_dict()[name].equal(weight.float()), name


def test_a_model_that_was_loaded_is_free_of_its_file(tmp_path):
    """Whoever copies another file over it, in place, does not change the model in memory."""
    model, ids = random_model(), encode("same")[None]
    model.save(tmp_path / "model")
    loaded = TinyLLM.load(tmp_path / "model")
    with open(tmp_path / "model", "r+b") as file:
        file.write(bytes((tmp_path / "model").stat().st_size))
    assert loaded(ids).equal(model(ids))


def test_a_model_that_was_loaded_learns_and_leaves_its_file_alone(tmp_path):
    model, ids = random_model(context=8), encode("to be or not to be")
    model.save(tmp_path / "model")
    before = (tmp_path / "model").read_bytes()
    loaded = TinyLLM.load(str(tmp_path / "model"))
    assert train(loaded, ids, steps=2) == train(model, ids, steps=2)
    assert all(a.equal(b) for a, b in zip(loaded.parameters(), model.parameters()))
    assert (tmp_path / "model").read_bytes() == before


def test_a_file_of_the_first_edition_loads(tmp_path):
    """Its sizes had a checksum of the file beside them, which nobody reads any more."""
    model = random_model(bias=True, norm_first=True)
    sizes = dict(vocab_size=256, d_model=64, n_layers=2, n_heads=4, d_ff=128, context=128, norm_first=True, bias=True, sha256="5e" * 32)
    (tmp_path / "old").write_bytes(safetensors.torch.save(model.state_dict(), {"tinyllm": json.dumps(sizes)}))
    loaded, ids = TinyLLM.load(tmp_path / "old"), encode("same")[None]
    assert loaded.config == model.config and loaded(ids).equal(model(ids))
    loaded.save(tmp_path / "new")
    assert b"sha256" not in (tmp_path / "new").read_bytes() and TinyLLM.load(tmp_path / "new").config == model.config


def test_the_model_of_the_package_is_read_from_the_package(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    one, other = TinyLLM.pretrained(), TinyLLM.pretrained()
    assert one.config == Config() and one is not other and one(encode("same")[None]).equal(other(encode("same")[None]))
    with pytest.raises(TypeError, match="path"):
        TinyLLM.load()


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


def written(weights, sizes):
    """A file as save() makes it, with any weights and any sizes."""
    return safetensors.torch.save(weights, {"tinyllm": json.dumps(sizes)})


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


def test_any_checkpoint_with_a_flipped_bit_in_its_header_is_refused_or_a_model(tmp_path):
    """Nothing checks the header as a whole (context 128 may become 129), but no other error comes out of it."""
    data, path, chance = whole(tmp_path / "model"), tmp_path / "model", random.Random(0)
    refusals = 0
    for _ in range(500):
        flipped = bytearray(data)
        flipped[chance.randrange(8 + int.from_bytes(data[:8], "little"))] ^= 1 << chance.randrange(8)
        path.write_bytes(flipped)
        try:
            assert TinyLLM.load(path)(encode("text")[None]).shape == (1, 4, 256)
        except ValueError:
            refused(path)
            refusals += 1
    assert refusals > 400


def test_any_checkpoint_with_a_flipped_bit_in_its_weights_has_one_other_number_or_is_refused(tmp_path):
    """A number that is still a number is not noticed, as chapter 8 says; nothing else may come of it."""
    data, path, chance = whole(tmp_path / "model"), tmp_path / "model", random.Random(0)
    before = nn.utils.parameters_to_vector(TinyLLM.load(path).parameters())
    for _ in range(200):
        flipped = bytearray(data)
        flipped[chance.randrange(8 + int.from_bytes(data[:8], "little"), len(data))] ^= 1 << chance.randrange(8)
        path.write_bytes(flipped)
        try:
            after = nn.utils.parameters_to_vector(TinyLLM.load(path).parameters())
        except ValueError:
            assert "finite" in refused(path)
        else:
            assert (before != after).sum() == 1 or before.equal(after)  # equal: 0 became -0


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
def test_any_checkpoint_with_a_weight_that_is_no_number_is_refused(number, tmp_path):
    for name in ("embedding.weight", "blocks.0.norm1.bias", "head.weight"):
        model = random_model(d_model=8, n_heads=2, d_ff=8, n_layers=1)
        model.state_dict()[name].view(-1)[-1] = number
        model.save(tmp_path / "model")
        assert "finite" in refused(tmp_path / "model")


def test_any_checkpoint_with_an_edited_header_is_refused(tmp_path):
    data = whole(tmp_path / "model")
    for old, new in ((b'norm_first\\": false', b'norm_first\\": true '), (b'bias\\": false', b'bias\\": 0    '),
                     (b'd_model\\": 8', b'd_model\\": 4'), (b'd_ff\\": 8', b'd_ff\\": 9'), (b'n_layers\\": 1', b'n_layers\\": 2'),
                     (b'n_heads\\": 2', b'n_heads\\": 3'), (b'context\\": 128', b'context\\": 0  '),
                     (b'vocab_size\\": 256', b'vocab_size\\": 255'), (b"query", b"qvery")):
        assert old in data
        refused(tmp_path / "model", data.replace(old, new))


def test_any_checkpoint_of_another_program_or_version_is_refused(tmp_path):
    model = TinyLLM()
    weights, sizes = model.state_dict(), vars(model.config)
    refused(tmp_path / "another model", safetensors.torch.save({"x": torch.zeros(3)}))
    refused(tmp_path / "no metadata", safetensors.torch.save(weights))
    refused(tmp_path / "no sizes", safetensors.torch.save(weights, {"format": "pt"}))
    assert "rope" in refused(tmp_path / "newer", written(weights, {**sizes, "rope": True}))
    assert "Missing key" in refused(tmp_path / "other tensors", written({"x": torch.zeros(3), "y": torch.zeros(3)}, sizes))
    for text in ("{", "[]", "5", "null", "{}", '{"sha256": 5}', '{"n_layers": 2, "sha256": "\\ud800", "": 1}', "[" * 100_000):
        refused(tmp_path / "no json", safetensors.torch.save(weights, {"tinyllm": text}))


def test_any_checkpoint_lacks_no_tensor_and_has_none_too_many_and_each_in_its_shape(tmp_path):
    model = random_model(d_model=8, n_heads=2, d_ff=8, n_layers=1)
    weights, sizes = model.state_dict(), vars(model.config)
    for name, weight in weights.items():
        refused(tmp_path / "missing", written({key: w for key, w in weights.items() if key != name}, sizes))
        refused(tmp_path / "longer", written({**weights, name: torch.cat([weight, weight])}, sizes))
        refused(tmp_path / "flat", written({**weights, name: weight[None].clone()}, sizes))
    refused(tmp_path / "one more", written({**weights, "blocks.0.attention.mask": torch.zeros(8, 8)}, sizes))
    assert TinyLLM.load(whole(tmp_path / "right") and tmp_path / "right")


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
    dict(n_layers=10**9), dict(n_layers=10**30), dict(n_layers=1000), dict(n_layers=22), dict(d_model=30_000), dict(d_model=10**30),
    dict(d_ff=10**12), dict(d_ff=10**30), dict(vocab_size=10**15), dict(n_heads=2**62), dict(d_model=float("inf")),
    dict(context=float("inf")), dict(context=-1), dict(n_layers=0), dict(n_layers=float("nan")), dict(n_layers="2"), dict(n_layers=None),
    dict(d_model=32), dict(norm_first=True), dict(bias=True), dict(n_layers=3), dict(n_layers=1), dict(norm_first="yes")], ids=str)
def test_any_checkpoint_whose_sizes_its_weights_do_not_have_is_refused_at_once(claim, tmp_path):
    """Quickly, and without taking the memory that it asks for."""
    model = TinyLLM()
    data = written(model.state_dict(), {**vars(model.config), **claim})
    start, before = time.perf_counter(), peak_memory()
    refused(tmp_path / "model", data)
    assert time.perf_counter() - start < 2 and peak_memory() - before < 100


@pytest.mark.parametrize("context", [20_000, 10**12, 10**400], ids=["20,000", "10**12", "10**400"])
def test_any_checkpoint_may_claim_a_long_context_for_it_costs_nothing(context, tmp_path):
    """No table and no mask is kept: only the symbols that are really read take memory."""
    model, ids = TinyLLM(), encode("the statement is")[None]
    start, before = time.perf_counter(), peak_memory()
    (tmp_path / "model").write_bytes(written(model.state_dict(), {**vars(model.config), "context": context}))
    loaded = TinyLLM.load(tmp_path / "model")
    assert loaded.config.context == context and loaded(ids).equal(model(ids)) and str(loaded)
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


def test_any_checkpoint_that_cannot_be_written_leaves_nothing_behind(tmp_path):
    model, folder = random_model(d_model=8, n_heads=2, d_ff=8, n_layers=1), tmp_path / "folder"
    folder.mkdir()
    for path in (folder, tmp_path / "nowhere" / "model"):
        with pytest.raises(OSError):
            model.save(path)
    assert list(tmp_path.iterdir()) == [folder] and not list(folder.iterdir())
