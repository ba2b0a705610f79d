"""Loss, batches, training, and the weights that ship with the package."""

import json
import math
import os
import re
import runpy
import subprocess
import sys
from dataclasses import replace
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.optim.optimizer import register_optimizer_step_pre_hook

from tools.measure.ablation import recipe as ablation_recipe
from tinyllm import Config, TinyLLM, evaluate, load_ids, split, train
from tinyllm.training import Muon, batches

ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[2])}
SMALL = Config(d_model=16, n_heads=2, d_ff=32, n_layers=1, context=8)


def small_model(seed=0):
    torch.manual_seed(seed)
    return TinyLLM(SMALL)


# ------------------------------------------------------------------ evaluation

@given(length=st.integers(2, 200), batch=st.integers(1, 5))
@settings(max_examples=30)
def test_evaluate_is_the_mean_over_every_symbol_but_the_first(length, batch):
    model, ids = small_model(), torch.randint(256, (length,), dtype=torch.uint8)
    total = 0.0
    for start in range(0, length - 1, 8):
        window = ids[start : start + 9].long()
        with torch.no_grad():
            log_probabilities = model(window[None, :-1])[0].log_softmax(-1)
        total -= log_probabilities.gather(1, window[1:, None]).sum().item()
    assert evaluate(model, ids, batch) == pytest.approx(total / (length - 1), rel=1e-4)


@pytest.mark.parametrize("length", [0, 1])
def test_nothing_to_predict_is_refused(length):
    with pytest.raises(ValueError, match=str(length)):
        evaluate(small_model(), torch.zeros(length, dtype=torch.uint8))


# ------------------------------------------------------------------ batches

@given(length=st.integers(9, 40), batch=st.integers(1, 6), seed=st.integers(0, 99))
def test_a_batch_is_windows_of_the_text_and_what_follows(length, batch, seed):
    ids = torch.arange(length, dtype=torch.uint8)  # every id says where it stands
    for inputs, targets in islice(batches(ids, batch, 8, torch.Generator().manual_seed(seed)), 3):
        assert inputs.shape == targets.shape == (batch, 8) and inputs.dtype == torch.int64
        assert (targets == inputs + 1).all() and (inputs.diff() == 1).all()


def test_a_pass_shows_each_part_once_and_the_next_cuts_the_text_elsewhere():
    stream = batches(torch.arange(100), 1, 8, torch.Generator().manual_seed(0))
    passes = [[]]
    for inputs, _ in islice(stream, 500):
        start = inputs[0, 0].item()
        if passes[-1] and (start in passes[-1] or (start - passes[-1][0]) % 8):
            passes.append([])
        passes[-1].append(start)
    assert all(sorted(one) == list(range(one[0] % 8, 92, 8)) for one in passes[:-1])
    assert {one[0] % 8 for one in passes} == set(range(8))
    assert any(one != sorted(one) for one in passes)  # shuffled


# ------------------------------------------------------------------ training

def test_one_batch_can_be_learned_by_heart():
    text = torch.frombuffer(bytearray(b"so much depends upon a red wheel barrow glazed with rain water"), dtype=torch.uint8)
    torch.manual_seed(0)
    model = TinyLLM(Config(context=len(text) - 1))
    losses = train(model, text, steps=150, batch=1)
    assert losses[0] > 4 and losses[-1] < 0.05


def test_the_same_seed_gives_the_same_model():
    ids = load_ids()[:2000]
    runs = []
    for seed in (0, 0, 1):
        model = small_model()
        losses = train(model, ids, steps=20, seed=seed)
        runs.append((losses, torch.cat([p.flatten() for p in model.parameters()])))
    assert runs[0][0] == runs[1][0] and runs[0][1].equal(runs[1][1])
    assert runs[0][0] != runs[2][0]


def test_every_parameter_is_trained():
    model = small_model()
    before = [p.detach().clone() for p in model.parameters()]
    train(model, load_ids()[:2000], steps=5)
    seen = load_ids()[:2000].unique().long()
    for (name, p), old in zip(model.named_parameters(), before):
        if name == "embedding.weight":  # rows of symbols that the text does not contain only fade, all alike
            shares = (p / old)[~torch.isin(torch.arange(256), seen)]
            assert 0.9 < shares[0, 0] < 1 and torch.allclose(shares, shares[0, 0])
        assert (p != old).any(), name


def test_each_step_is_reported():
    seen = []
    losses = train(small_model(), load_ids()[:2000], steps=7, on_step=lambda step, loss: seen.append((step, loss)))
    assert seen == list(enumerate(losses)) and all(math.isfinite(loss) for loss in losses)


def test_training_beats_counting_symbols():
    training, validation = split(load_ids()[:40_000])
    model = small_model()
    train(model, training, steps=200)
    counts = torch.bincount(training.long(), minlength=256) + 1.0
    unigram = F.nll_loss((counts / counts.sum()).log().expand(len(validation), -1), validation.long()).item()
    assert evaluate(model, validation) < unigram - 0.3


def test_a_text_of_one_symbol_is_learned():
    model = small_model()
    assert train(model, torch.full((500,), 97, dtype=torch.uint8), steps=60)[-1] < 0.1


def steps_of_the_optimizers(model, steps):
    """[{optimizer: learning rate}, …], one for each training step, seen from outside by PyTorch's own hook."""
    seen = [{}]

    def look(optimizer, *_):
        if optimizer in seen[-1]:
            seen.append({})
        seen[-1][optimizer] = optimizer.param_groups[0]["lr"]

    hook = register_optimizer_step_pre_hook(look)
    train(model, load_ids()[:2000], steps=steps)
    hook.remove()
    return seen


@pytest.mark.parametrize("sizes", [{}, dict(bias=True, norm_first=True)])
def test_each_parameter_has_one_optimizer_and_each_matrix_of_the_blocks_has_muon(sizes):
    torch.manual_seed(0)
    model = TinyLLM(replace(SMALL, **sizes))
    optimizers = list(steps_of_the_optimizers(model, 1)[0])
    owned = [(id(p), type(o).__name__) for o in optimizers for group in o.param_groups for p in group["params"]]
    assert sorted(p for p, _ in owned) == sorted(id(p) for p in model.parameters())  # all, and none twice
    matrices = {id(p) for p in model.blocks.parameters() if p.dim() == 2}
    assert {p for p, optimizer in owned if "Muon" in optimizer} == matrices


SIZES = [[(8, 8), (8, 8)], [(8, 20), (20, 8)], [(3, 30)], [(5, 1)]]  # on one stack: equal sizes, turned or not


def muon_trial(build, shapes, steps=4):
    """The matrices before, after each of some steps with random gradients, and the gradients."""
    generator = torch.Generator().manual_seed(0)
    matrices = [torch.nn.Parameter(torch.randn(shape, generator=generator)) for shape in shapes]
    optimizer, states, gradients = build(matrices), [[p.detach().clone() for p in matrices]], []
    for _ in range(steps):
        gradients.append([torch.randn(shape, generator=generator) for shape in shapes])
        for p, gradient in zip(matrices, gradients[-1]):
            p.grad = gradient.clone()
        optimizer.step()
        states.append([p.detach().clone() for p in matrices])
    return states, gradients


@pytest.mark.parametrize("shapes", SIZES, ids=str)
def test_muon_matches_the_formula_matrix_by_matrix_in_numpy(shapes):
    states, gradients = muon_trial(lambda matrices: Muon(matrices, lr=0.1, momentum=0.8, weight_decay=0.3), shapes)
    for i, (rows, columns) in enumerate(shapes):
        weight, mean = states[0][i].double().numpy(), np.zeros((rows, columns))
        for state, gradient in zip(states[1:], gradients):
            g = gradient[i].double().numpy()
            mean = 0.8 * mean + 0.2 * g
            u, s, v = np.linalg.svd(0.2 * g + 0.8 * mean, full_matrices=False)
            s = s / np.sqrt((s ** 2).sum())
            for _ in range(5):
                s = 3.4445 * s - 4.7750 * s ** 3 + 2.0315 * s ** 5
            weight = 0.97 * weight - 0.1 * max(1, rows / columns) ** 0.5 * u @ np.diag(s) @ v
            assert np.allclose(state[i].numpy(), weight, atol=1e-4), (rows, columns)


@pytest.mark.parametrize("shapes", SIZES[:2], ids=str)
def test_muon_does_what_pytorchs_muon_does_in_bfloat16(shapes):
    ours, _ = muon_trial(lambda matrices: Muon(matrices, 0.1, momentum=0.8, weight_decay=0.3), shapes)
    theirs, _ = muon_trial(lambda matrices: torch.optim.Muon(matrices, 0.1, momentum=0.8, weight_decay=0.3), shapes)
    for before, after, start, end in zip(ours[0], ours[-1], theirs[0], theirs[-1]):
        assert ((after - before) - (end - start)).norm() < 0.05 * (end - start).norm()


def test_muon_survives_a_gradient_of_zero():
    matrix = torch.nn.Parameter(torch.ones(3, 4))
    matrix.grad = torch.zeros(3, 4)
    Muon([matrix], lr=0.1, momentum=0.9).step()
    assert matrix.equal(torch.ones(3, 4))


def test_the_learning_rates_rise_to_their_peak_and_fall_to_almost_nothing():
    seen = steps_of_the_optimizers(small_model(), 200)
    rates = [[step[optimizer] for step in seen] for optimizer in seen[0]]
    assert len(rates) >= 2 and len(seen) == 200
    for rate in rates:
        factors = [r / max(rate) for r in rate]
        peak = factors.index(1)
        assert 0 < factors[0] < 1 and peak < 50 and factors[-1] < 0.02
        assert factors[: peak + 1] == sorted(factors[: peak + 1])
        assert factors[peak:] == sorted(factors[peak:], reverse=True)
        assert factors == pytest.approx([r / max(rates[0]) for r in rates[0]])  # one schedule for all


@pytest.mark.parametrize("length", [0, 1, 8])
def test_too_short_a_text_is_refused(length):
    with pytest.raises(ValueError, match=f"{length} symbols.*9"):
        train(small_model(), torch.zeros(length, dtype=torch.uint8), steps=1)


def test_two_halves_of_a_batch_train_like_the_whole_and_always_the_same():
    ids, before = load_ids()[:2000], torch.get_num_threads()
    runs = []
    try:
        for threads in (1, 2, 2, 3):
            torch.set_num_threads(threads)
            losses = train(model := small_model(), ids, steps=20, batch=5)
            runs.append((losses, torch.cat([p.detach().flatten() for p in model.parameters()])))
            assert torch.get_num_threads() == threads
    finally:
        torch.set_num_threads(before)
    (one, weights), *halves = runs
    for losses, theirs in halves:
        assert losses == pytest.approx(one, rel=1e-4)
        torch.testing.assert_close(theirs, weights, rtol=1e-2, atol=1e-3)
    assert halves[0][0] == halves[1][0] and halves[0][1].equal(halves[1][1])  # to the bit, whichever half is first


@pytest.mark.slow
def test_two_processes_train_like_one(tmp_path, capsys):
    """The same losses and weights whether one process takes whole batches or two take half of each;
    `tinyllm train` under torchrun saves one model and prints one loss."""
    script = tmp_path / "run.py"
    script.write_text('''
import json, os, sys, torch
from tinyllm import Config, TinyLLM, load_ids, train
from tinyllm.cli import main
data, out = sys.argv[1:]
main(["train", "--data", data, "--steps", "3", "--out", out + ".safetensors"])
torch.manual_seed(0)
model = TinyLLM(Config(d_model=16, n_heads=2, d_ff=32, n_layers=1, context=8))
losses = train(model, load_ids(data), steps=20, batch=8)
weights = torch.cat([p.detach().flatten() for p in model.parameters()]).tolist()
json.dump([losses, weights], open(out + os.environ.get("RANK", ""), "w"))
''')
    data, alone = tmp_path / "data", tmp_path / "alone"
    data.write_bytes(bytes(load_ids()[:2000].tolist()))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", [str(script), str(data), str(alone)])
        runpy.run_path(str(script))
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    run = subprocess.run([*torchrun, script, data, tmp_path / "rank"], env=ENVIRONMENT, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr

    one, two = (re.findall("^val_loss (.*) nats", printed, re.M) for printed in (capsys.readouterr().out, run.stdout))
    assert len(one) == len(two) == 1 and float(one[0]) == pytest.approx(float(two[0]), abs=0.01)
    assert not list(tmp_path.glob("*.part")) and TinyLLM.load(tmp_path / "rank.safetensors")
    losses, weights = map(torch.tensor, json.loads(alone.read_text()))
    for rank in "01":
        their_losses, their_weights = map(torch.tensor, json.loads((tmp_path / f"rank{rank}").read_text()))
        torch.testing.assert_close(their_losses, losses, rtol=1e-3, atol=1e-3)
        torch.testing.assert_close(their_weights, weights, rtol=2e-2, atol=2e-2)


# ------------------------------------------------------------------ the shipped weights

def test_the_shipped_weights_fit_the_code():
    model = TinyLLM.pretrained()
    assert model.config == Config(), "the default Config changed: run `make weights`"
    assert all(p.isfinite().all() for p in model.parameters())


def test_the_shipped_weights_predict():
    """Trained by `make weights` to about 1.20; another Python's manual is a slightly different text."""
    loss = evaluate(TinyLLM.pretrained(), split(load_ids())[1])
    assert loss < 1.29, "the shipped weights no longer match the code: run `make weights`"


# ------------------------------------------------------------------ the table of chapter 9

def test_the_table_of_choices_is_about_the_present_recipe():
    ablation = json.loads((Path(__file__).resolve().parents[2] / "docs/assets/ablation.json").read_text("utf-8"))
    assert ablation["recipe"] == ablation_recipe(), "run `make ablation`"
    assert len(ablation["losses"]["nothing"]) > 1, "the spread between seeds is missing"
