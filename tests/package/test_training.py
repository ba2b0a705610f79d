"""Loss, batches, training, and the weights that ship with the package."""

import json
import math
import os
import re
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
from tinyllm import Config, TinyLLM, encode, evaluate, intervene, load_text, split, train
from tinyllm.training import Muon, batches, make_optimizers, orthogonalize

ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[2])}
SMALL = Config(d_model=16, n_heads=2, d_ff=32, n_layers=1, context=8)
MANUAL = encode(load_text())


def small_model(seed=0):
    torch.manual_seed(seed)
    return TinyLLM(SMALL)


# ------------------------------------------------------------------ evaluation

@given(length=st.integers(2, 200))
@settings(max_examples=30)
def test_evaluate_is_the_mean_over_every_symbol_but_the_first(length):
    model, ids = small_model(), torch.randint(256, (length,), dtype=torch.uint8)
    total = 0.0
    for start in range(0, length - 1, 8):
        window = ids[start : start + 9].long()
        with torch.no_grad():
            log_probabilities = model(window[None, :-1])[0].log_softmax(-1)
        total -= log_probabilities.gather(1, window[1:, None]).sum().item()
    assert evaluate(model, ids) == pytest.approx(total / (length - 1), rel=1e-4)


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


def test_a_window_may_start_anywhere_and_everywhere_equally_often():
    inputs, targets = next(batches(torch.arange(20), 12_000, 8, torch.Generator().manual_seed(0)))
    counts = torch.bincount(inputs[:, 0])
    assert len(counts) == 12 and targets.max() == 19  # the first and the last symbol can be in a window
    assert ((counts - 1000.0) ** 2 / 1000).sum() < 31.3  # 11 degrees of freedom, 99.9 %


def test_the_seed_decides_which_windows_come():
    def windows(seed):
        return [inputs.tolist() for inputs, _ in islice(batches(torch.arange(1000), 4, 8, torch.Generator().manual_seed(seed)), 3)]

    one, again, other = windows(0), windows(0), windows(1)
    assert one == again != other and one[0] != one[1]


# ------------------------------------------------------------------ training

def test_one_batch_can_be_learned_by_heart():
    text = torch.frombuffer(bytearray(b"so much depends upon a red wheel barrow glazed with rain water"), dtype=torch.uint8)
    torch.manual_seed(0)
    model = TinyLLM(Config(context=len(text) - 1))
    losses = train(model, text, steps=150, batch=1)  # there is one window to draw
    assert losses[0] > 4 and losses[-1] < 0.05


def test_the_same_seed_gives_the_same_model():
    ids = MANUAL[:2000]
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
    train(model, MANUAL[:2000], steps=5)
    seen = MANUAL[:2000].unique().long()
    for (name, p), old in zip(model.named_parameters(), before):
        if name == "embedding.weight":  # rows of symbols that the text does not contain only fade, all alike
            shares = (p / old)[~torch.isin(torch.arange(256), seen)]
            assert 0.9 < shares[0, 0] < 1 and torch.allclose(shares, shares[0, 0])
        assert (p != old).any(), name


def test_each_step_is_reported():
    seen = []
    losses = train(small_model(), MANUAL[:2000], steps=7, on_step=lambda step, loss: seen.append((step, loss)))
    assert seen == list(enumerate(losses)) and len(losses) == 7 and all(math.isfinite(loss) for loss in losses)
    assert losses == train(small_model(), MANUAL[:2000], steps=7)  # to look changes nothing


def test_the_loss_that_is_reported_is_that_of_the_batch_before_the_step():
    losses, model = train(small_model(), MANUAL[:2000], steps=1, batch=3, seed=5), small_model()
    inputs, targets = next(batches(MANUAL[:2000], 3, 8, torch.Generator().manual_seed(5)))
    assert losses == [pytest.approx(F.cross_entropy(model(inputs).flatten(0, 1), targets.flatten()).item(), rel=1e-5)]


def test_training_beats_counting_symbols():
    training, validation = split(MANUAL[:40_000])
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
    train(model, MANUAL[:2000], steps=steps)
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
    for optimizer in optimizers:
        if isinstance(optimizer, Muon):  # as many groups as shapes
            shapes = [{p.shape for p in group["params"]} for group in optimizer.param_groups]
            assert all(len(one) == 1 for one in shapes) and len(set.union(*shapes)) == len(shapes)


SIZES = [[(8, 8), (8, 8), (8, 8)], [(8, 20), (20, 8), (8, 20)], [(3, 30)], [(5, 1)]]


def by_shape(matrices):
    """Groups of matrices of one shape, as our Muon wants them."""
    groups = {}
    for p in matrices:
        groups.setdefault(p.shape, []).append(p)
    return [{"params": group} for group in groups.values()]


def quintic(s):
    """What five Newton-Schulz steps make of the singular values of a matrix of norm 1."""
    for _ in range(5):
        s = 3.4445 * s - 4.7750 * s ** 3 + 2.0315 * s ** 5
    return s


@pytest.mark.parametrize("shape", [(4, 8, 20), (4, 20, 8), (1, 3, 3), (3, 1, 6), (3, 6, 1)], ids=str)
def test_orthogonalize_brings_singular_values_close_to_1_and_turns_nothing(shape):
    x = torch.randn(shape, generator=torch.Generator().manual_seed(0))
    y = orthogonalize(x)
    assert y.shape == x.shape
    for matrix, result in zip(x.double().numpy(), y.double().numpy()):
        u, s, v = np.linalg.svd(matrix, full_matrices=False)
        assert np.allclose(result, u @ np.diag(quintic(s / np.sqrt((s ** 2).sum()))) @ v, atol=1e-4)
        assert 0.6 < np.linalg.svd(result, compute_uv=False).min()
        assert np.linalg.svd(result, compute_uv=False).max() < 1.3
    torch.testing.assert_close(orthogonalize(1000 * x), y, rtol=1e-3, atol=1e-4)  # only the direction counts
    torch.testing.assert_close(orthogonalize(x[:1]), y[:1], rtol=1e-3, atol=1e-4)  # each for itself
    torch.testing.assert_close(orthogonalize(x.mT), y.mT, rtol=1e-3, atol=1e-4)


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
    states, gradients = muon_trial(lambda matrices: Muon(by_shape(matrices), lr=0.1, momentum=0.8, weight_decay=0.3), shapes)
    for i, (rows, columns) in enumerate(shapes):
        weight, mean = states[0][i].double().numpy(), np.zeros((rows, columns))
        for state, gradient in zip(states[1:], gradients):
            g = gradient[i].double().numpy()
            mean = 0.8 * mean + 0.2 * g
            u, s, v = np.linalg.svd(0.2 * g + 0.8 * mean, full_matrices=False)
            s = quintic(s / np.sqrt((s ** 2).sum()))
            weight = 0.97 * weight - 0.1 * max(1, rows / columns) ** 0.5 * u @ np.diag(s) @ v
            assert np.allclose(state[i].numpy(), weight, atol=1e-4), (rows, columns)


@pytest.mark.parametrize("shapes", SIZES[:2], ids=str)
def test_muon_does_what_pytorchs_muon_does_in_bfloat16(shapes):
    ours, _ = muon_trial(lambda matrices: Muon(by_shape(matrices), lr=0.1, momentum=0.8, weight_decay=0.3), shapes)
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
    for optimizer, rate in zip(seen[0], rates):  # up for 2 % of the steps, then down in a straight line
        peak = optimizer.param_groups[0]["initial_lr"]
        assert rate == pytest.approx([peak * min((step + 1) / 4, 1 - step / 200) for step in range(200)])
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
    assert len(train(small_model(), torch.zeros(9, dtype=torch.uint8), steps=1)) == 1


@pytest.mark.parametrize("ids", ["so much depends", [1, 2, 3] * 9, MANUAL[None, :100], MANUAL[:100].numpy(), None],
                         ids=["str", "list", "(1, N)", "array", "None"])
def test_what_is_not_one_tensor_of_ids_is_refused(ids):
    with pytest.raises(ValueError, match=r"one tensor \(N,\)"):
        train(small_model(), ids, steps=1)


@pytest.mark.parametrize("steps", [0, -1])
def test_no_step_at_all_is_refused(steps):
    with pytest.raises(ValueError, match=f"not {steps}"):
        train(small_model(), MANUAL[:100], steps=steps)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_weights_too_coarse_for_small_steps_are_refused_before_they_change(dtype):
    model = small_model().to(dtype)
    before = [p.detach().clone() for p in model.parameters()]
    with pytest.raises(ValueError, match=r"too coarse.*model\.float\(\)"):
        train(model, MANUAL[:100], steps=1)
    assert all(p.equal(old) for p, old in zip(model.parameters(), before))
    assert math.isfinite(train(model.float(), MANUAL[:100], steps=1)[0])


def test_double_precision_trains_to_nearly_the_same_model():
    single, double = small_model(), small_model().double()
    losses = train(single, MANUAL[:2000], steps=10)
    assert train(double, MANUAL[:2000], steps=10) == pytest.approx(losses, rel=1e-3)
    assert double.head.weight.dtype == torch.float64


# ------------------------------------------------------------------ frozen parameters

FREEZE = {"a block": lambda name: name.startswith("blocks.0."), "the blocks": lambda name: name.startswith("blocks."),
          "the head": lambda name: name.startswith("head."), "all but the head": lambda name: not name.startswith("head."),
          "all but matrices of the blocks": lambda name: not (name.startswith("blocks.") and "norm" not in name),
          "one matrix of three": lambda name: name == "blocks.0.attention.key.weight", "nothing": lambda name: False}


@pytest.mark.parametrize("what", FREEZE)
def test_what_is_frozen_does_not_move_by_a_bit_and_the_rest_is_trained(what):
    torch.manual_seed(0)
    model = TinyLLM(replace(SMALL, n_layers=2))
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    for name, p in model.named_parameters():
        p.requires_grad_(not FREEZE[what](name))
    losses = train(model, MANUAL[:2000], steps=60)
    assert sum(losses[-10:]) < sum(losses[:10])
    for name, p in model.named_parameters():
        assert p.equal(before[name]) == FREEZE[what](name), name
    owned = [id(p) for o in make_optimizers(model) for group in o.param_groups for p in group["params"]]
    assert sorted(owned) == sorted(id(p) for p in model.parameters() if p.requires_grad)


def test_a_model_with_nothing_to_train_is_refused():
    model = small_model().requires_grad_(False)
    with pytest.raises((ValueError, RuntimeError)):
        train(model, MANUAL[:100], steps=1)


# ------------------------------------------------------------------ several processes


SCRIPT = """
import json, os, sys, torch
from tinyllm import Config, TinyLLM, encode, load_text, train
from tinyllm.cli import main
data, out = sys.argv[1:]
main(["train", "--data", data, "--steps", "3", "--device", "cpu", "--out", out + ".safetensors"])
torch.manual_seed(int(os.environ.get("RANK", 0)))  # every process starts from the weights of the first
model = TinyLLM(Config(d_model=16, n_heads=2, d_ff=32, n_layers=2, context=8))
model.blocks[0].requires_grad_(False)
losses = train(model, encode(load_text(data)), steps=20, batch=8)
weights = torch.cat([p.detach().flatten() for p in model.parameters()]).tolist()
json.dump([losses, weights], open(out + os.environ.get("RANK", ""), "w"))
"""


@pytest.fixture(scope="module")
def one_process(tmp_path_factory):
    """The script, the text it reads, and what it says and leaves when one process takes whole batches."""
    folder = tmp_path_factory.mktemp("one")
    (folder / "run.py").write_text(SCRIPT)
    (folder / "data").write_bytes(bytes(MANUAL[:2000].tolist()))
    run = subprocess.run([sys.executable, folder / "run.py", folder / "data", folder / "alone"], env=ENVIRONMENT,
                         capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    return folder, run.stdout


@pytest.mark.slow
@pytest.mark.parametrize("processes", [2, 3])
def test_several_processes_train_like_one(processes, one_process, tmp_path):
    """The same losses and weights whether one process takes whole batches, or two take half of each, or three
    take 3, 3 and 2 windows of each 8; `tinyllm train` under torchrun saves one model and prints one loss."""
    folder, said = one_process
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(processes)]
    run = subprocess.run([*torchrun, folder / "run.py", folder / "data", tmp_path / "rank"], env=ENVIRONMENT,
                         capture_output=True, text=True)
    assert run.returncode == 0, run.stderr

    one, several = (re.findall("^val_loss (.*) nats", printed, re.M) for printed in (said, run.stdout))
    assert len(one) == len(several) == 1 and float(one[0]) == pytest.approx(float(several[0]), abs=0.01)
    assert run.stdout.count("saved") == 1
    assert not list(tmp_path.glob("*.part")) and TinyLLM.load(tmp_path / "rank.safetensors")
    losses, weights = map(torch.tensor, json.loads((folder / "alone").read_text()))
    for rank in range(processes):
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
    loss = evaluate(TinyLLM.pretrained(), split(MANUAL)[1])
    assert loss < 1.29, "the shipped weights no longer match the code: run `make weights`"


# ------------------------------------------------------------------ the table of chapter 9

def test_the_table_of_choices_is_about_the_present_recipe():
    ablation = json.loads((Path(__file__).resolve().parents[2] / "docs/assets/ablation.json").read_text("utf-8"))
    assert ablation["recipe"] == ablation_recipe(), "run `make ablation`"
    assert len(ablation["losses"]["nothing"]) > 1, "the spread between seeds is missing"


def test_a_part_that_an_intervention_cuts_off_does_not_stop_the_training():
    """Its matrices have no gradient at all; the rest goes on learning."""
    model = TinyLLM()
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    with intervene(model, {"blocks.0.attention": torch.zeros_like}):
        losses = train(model, encode(load_text())[:5000], steps=30)
    assert losses[-1] < losses[0]
    for i in (0, 1):
        weight, was = model.blocks[i].attention.query.weight, before[f"blocks.{i}.attention.query.weight"]
        assert (F.cosine_similarity(weight.flatten(), was.flatten(), dim=0) > 0.9999) == (i == 0)  # 0: weight decay alone
        assert (weight.grad is None) == (i == 0)


def test_a_compiled_model_gets_the_same_optimizers():
    """Its parameters have other names, and are the same."""
    model = TinyLLM()
    plain, compiled = (make_optimizers(m) for m in (model, torch.compile(model, backend="eager")))
    for one, other in zip(plain, compiled, strict=True):
        for group, its in zip(one.param_groups, other.param_groups, strict=True):
            assert [id(p) for p in group["params"]] == [id(p) for p in its["params"]]
