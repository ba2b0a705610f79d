"""The measurements against peers: the comparison is fair, the arithmetic right, and the page gets what it reads.

Nothing here needs the library of the `bench` extra.
"""

import importlib.metadata
import json
import re
from collections import Counter, defaultdict
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tinyllm import Config, TinyLLM
from tools.measure import bench, peers, timing

ROOT = Path(__file__).resolve().parents[2]
SMALL = dict(d_model=16, n_heads=2, d_ff=32, n_layers=2, context=8)


# ------------------------------------------------------------------ the peers

@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("config", [{}, SMALL])
def test_torchs_encoder_is_the_same_network(config, norm_first):
    """As many parameters, and with our weights in it our logits."""
    config = Config(**config, norm_first=norm_first)
    ours, theirs = TinyLLM(config), peers.EncoderPeer(config)
    assert sum(p.numel() for p in ours.parameters()) == sum(p.numel() for p in theirs.parameters())
    with torch.no_grad():
        for p in ours.parameters():
            p.copy_(torch.randn(p.shape) / p.shape[-1] ** 0.5 + (p.dim() == 1))
        theirs.embedding.weight.copy_(ours.embedding.weight)
        theirs.head.weight.copy_(ours.head.weight)
        for mine, layer in zip(ours.blocks, theirs.blocks, strict=True):
            a = mine.attention
            layer.self_attn.in_proj_weight.copy_(torch.cat([a.query.weight, a.key.weight, a.value.weight]))
            layer.self_attn.out_proj.weight.copy_(a.output.weight)
            layer.linear1.weight.copy_(mine.ffn.up.weight)
            layer.linear2.weight.copy_(mine.ffn.down.weight)
            layer.norm1.load_state_dict(mine.norm1.state_dict())
            layer.norm2.load_state_dict(mine.norm2.state_dict())
        if norm_first:
            theirs.encoder.norm.load_state_dict(ours.norm.state_dict())
    ids = torch.randint(256, (3, config.context))
    torch.testing.assert_close(theirs(ids), ours(ids), rtol=1e-4, atol=1e-4)


def test_the_encoders_layers_do_not_start_equal():
    first, second = (layer.linear1.weight for layer in peers.EncoderPeer(Config(**SMALL)).blocks)
    assert not first.equal(second)


@pytest.mark.parametrize("recipe", [peers.our_recipe, peers.torch_muon, peers.adamw(0.005)])
@pytest.mark.parametrize("network", [TinyLLM, peers.EncoderPeer])
def test_a_recipe_trains_every_parameter_once(network, recipe):
    model = network(Config(**SMALL))
    model.positions_table = torch.nn.Parameter(torch.zeros(8, 16))       # as GPT-2 has one
    optimizers = recipe(model)
    groups = [group["params"] for optimizer in optimizers for group in optimizer.param_groups]
    assert Counter(id(p) for group in groups for p in group) == Counter(id(p) for p in model.parameters())
    home = next(group for group in groups if any(p is model.embedding.weight for p in group))
    assert any(p is model.positions_table for p in home)


def test_our_recipe_has_muon_for_the_matrices_of_a_peers_blocks():
    model = peers.EncoderPeer(Config(**SMALL))
    muon, adamw = peers.our_recipe(model)
    matrices = {id(p) for p in model.blocks.parameters() if p.dim() == 2}
    assert {id(p) for group in muon.param_groups for p in group["params"]} == matrices
    assert len(matrices) + len(adamw.param_groups[0]["params"]) == len(list(model.parameters()))


def test_a_run_uses_the_recipe_it_is_given():
    ids, made = torch.arange(200, dtype=torch.uint8), []

    def recipe(model):
        made.append(peers.adamw(0.005)(model))
        return made[-1]

    model = peers.EncoderPeer(Config(**SMALL))
    before = [p.detach().clone() for p in model.parameters()]
    assert len(timing.train(model, ids, 3, recipe)) == 3 and len(made) == 1
    assert all((p != old).any() for p, old in zip(model.parameters(), before))
    assert timing.training.make_optimizers is not recipe


def test_each_network_writes_as_many_symbols_as_it_is_asked_for():
    for network in timing.TWINS:
        assert len(timing.write_greedily(timing.build(network), 20)) == 20


# ------------------------------------------------------------------ n-grams

def by_hand(ids, longest):
    """Witten and Bell's interpolation straight from the formula, nothing pruned: p(past, symbol)."""
    following = defaultdict(Counter)
    for i, symbol in enumerate(ids):
        for n in range(min(i + 1, longest)):
            following[tuple(ids[i - n:i])][symbol] += 1
    inside = Counter(tuple(ids[i:i + n]) for n in range(longest + 1) for i in range(len(ids) - n + (n > 0)))

    def p(past, symbol):
        shorter = p(past[1:], symbol) if past else 1 / 256
        next_ones = following[past]
        if not next_ones:
            return shorter
        count, different = inside[past], len(next_ones)      # a past at the very end has no symbol after it
        unused = count - sum(next_ones.values())
        return (next_ones[symbol] + (unused + different) * shorter) / (count + different)
    return p


texts = st.lists(st.integers(97, 99) | st.just(255), min_size=2, max_size=60)


@given(text=texts, longest=st.integers(1, 5))
@settings(deadline=None, max_examples=40)
def test_all_counts_give_witten_and_bells_formula(text, longest):
    model, p = peers.NGram(np.array(text, np.uint8), 10**6, longest), by_hand(text, longest)
    expected = [p(tuple(text[max(0, i - longest + 1):i]), symbol) for i, symbol in enumerate(text)]
    np.testing.assert_allclose(model.probabilities(text), expected, rtol=1e-9)


@given(text=texts, past=st.lists(st.integers(96, 99), max_size=6), limit=st.integers(1, 40), longest=st.integers(1, 8))
@settings(deadline=None, max_examples=15)
def test_pruned_counts_keep_to_their_number_and_sum_to_one(text, past, limit, longest):
    model = peers.NGram(np.array(text, np.uint8), limit, longest)
    stored = sum(len(keys) for (keys, _), _, _ in model.tables)
    assert stored == model.parameters <= limit
    p = [model.probabilities(past + [symbol])[-1] for symbol in range(256)]
    assert min(p) > 0 and sum(p) == pytest.approx(1)


# ------------------------------------------------------------------ the arithmetic

def test_a_ratio_is_the_median_of_the_rounds_and_not_of_the_times():
    rounds = {"ours": [1, 1, 10, 10, 2], "theirs": [2, 2, 22, 20, 6]}            # a machine that is now fast, now slow
    found = timing.compared(rounds, "ours")
    assert found == {"ours": {"seconds": [1, 2, 10], "ratio": [1, 1, 1]}, "theirs": {"seconds": [4, 4, 4.4], "ratio": [2, 2, 2.2]}}


def test_rounds_take_turns_and_the_warm_up_does_not_count(capsys):
    order = []
    tasks = {name: lambda name=name: order.append(name) or len(order) for name in "abc"}
    found = timing.interleave(tasks, 2, "test")
    assert "".join(order) == "abc" "bca" "cab"
    assert found == {"a": [6, 8], "b": [4, 9], "c": [5, 7]}


def test_the_first_step_is_not_timed(monkeypatch):
    clock = iter([100.0, 101.0, 103.0])                   # after each of three steps
    monkeypatch.setattr(timing.time, "perf_counter", lambda: next(clock, 103.0))
    ids = torch.arange(200, dtype=torch.uint8)

    def train(model, ids, steps, recipe, on_step):
        for step in range(steps):
            on_step(step, 0.0)

    monkeypatch.setattr(timing, "train", train)
    assert timing.step_seconds(None, ids, None, steps=2) == 1.5


# ------------------------------------------------------------------ results and faults

def test_the_page_shows_the_results_of_this_model():
    results = json.loads(bench.OUT.read_text(encoding="utf-8"))
    assert results["config"] == asdict(Config()) and results["batch"] == timing.BATCH, "the model changed: run `make bench`"
    cells = re.findall(r"^```python[^\n]*\n(.*?)^```", (ROOT / "docs/A5-peers.md").read_text(encoding="utf-8"), re.M | re.S)
    assert len(cells) > 8
    import matplotlib
    matplotlib.use("Agg")
    shown = {}
    for cell in cells:
        exec(cell, shown)
    matplotlib.pyplot.close("all")
    names = list(timing.recipes(dict.fromkeys(timing.NETWORKS, 0.01)))
    for part in ("steps", "share", "memory"):
        assert list(results[part]) == names, part
    assert list(results["curves"]) == [name for name in names if name != timing.PARTS]
    assert all(low <= middle <= high for row in results["steps"].values() for low, middle, high in row.values())
    assert results["ngrams"]["parameters"] <= results["parameters"]["tinyllm"] == results["parameters"]["TransformerEncoder"]


def test_half_a_file_is_never_written(tmp_path):
    path = tmp_path / "bench.json"
    bench.write({"a": 1}, path)
    with pytest.raises(TypeError):
        bench.write({"a": object()}, path)
    assert json.loads(path.read_text()) == {"a": 1} and list(tmp_path.iterdir()) == [path]


def one_line(capsys, arguments, status):
    with pytest.raises(SystemExit) as stop:
        bench.main(arguments)
    said = capsys.readouterr().err.strip()
    assert stop.value.code == status and len(said.splitlines()) == 1, said
    return said


def test_without_the_extra_one_line_says_what_to_install(monkeypatch, capsys):
    def missing(name):
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "version", missing)
    assert re.search(r"transformers is not installed.*\.\[bench\]", one_line(capsys, [], 2))


def test_faults_are_one_line_and_leave_the_old_results(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(importlib.metadata, "version", lambda name: "0")
    old = tmp_path / "bench.json"
    old.write_text("{}")
    short = tmp_path / "short.txt"
    short.write_text("short")
    assert "nowhere.txt" in one_line(capsys, ["--data", "nowhere.txt", "--out", str(old)], 2)
    assert "too short" in one_line(capsys, ["--data", str(short), "--out", str(old)], 2)
    assert "--rounds" in one_line(capsys, ["--rounds", "0", "--out", str(old)], 2)

    def interrupted(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(bench, "measure", interrupted)
    assert "interrupted" in one_line(capsys, ["--out", str(old)], 130)
    assert old.read_text() == "{}" and sorted(tmp_path.iterdir()) == [old, short]
