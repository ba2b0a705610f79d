"""Sizes at equal compute: what the program trains, what it writes, and the law that is fitted to it."""

import json
import re
from dataclasses import asdict
from pathlib import Path

import pytest
import torch

from tinyllm import Config, TinyLLM
from tools.measure import scaling

ROOT = Path(__file__).resolve().parents[2]


def test_the_parameters_that_multiply_are_the_matrices_without_the_embedding():
    for width in scaling.WIDTHS:
        model = TinyLLM(scaling.sized(width))
        matrices = sum(p.numel() for name, p in model.named_parameters() if p.dim() == 2 and name != "embedding.weight")
        assert matrices == scaling.multiplying(model.config)
    assert scaling.sized(Config().d_model) == Config()


def test_a_tiny_run_spends_the_same_compute_on_each_size():
    ids = torch.randint(256, (3000,), generator=torch.Generator().manual_seed(0))
    rows = list(scaling.measure(ids, widths=(16, 32), budgets=(1, 2), seeds=2))
    assert [(row["width"], row["steps"]) for row in rows] == [(16, 10), (32, 3), (16, 20), (32, 7)]
    for row in rows:
        each = row["D"] // row["steps"]
        assert abs(6 * row["N"] * row["D"] - row["budget"]) <= 6 * row["N"] * each / 2       # to half a step
        assert len(row["losses"]) == len(row["seconds"]) == 2 and all(1 < loss < 9 for loss in row["losses"])
    assert rows[0]["losses"][0] != rows[0]["losses"][1]                                       # another seed, another run


def fitting():
    """The names of the chapter's cell that fits the law, up to where it reads the measurement."""
    cells = re.findall(r"^```python\n(.*?)^```", (ROOT / "docs/12-beyond.md").read_text("utf-8"), re.M | re.S)
    [cell] = [cell for cell in cells if "def power_law" in cell]
    names = {}
    exec(cell.partition("\nothers = ")[0], names)
    return names["power_law"], names["predict"]


def test_the_fit_finds_a_law_that_is_known():
    power_law, predict = fitting()
    truth = (1.2, 40.0, 0.35, 900.0, 0.525)
    rows = [dict(N=N, D=D, loss=predict(truth, N, D)) for N in (1e4, 4e4, 2e5, 6e5) for D in (3e5, 1e6, 5e6)]
    found = power_law(rows)
    assert found == pytest.approx(truth, rel=1e-3)
    assert predict(found, 1e5, 2e6) == pytest.approx(predict(truth, 1e5, 2e6), rel=1e-6)


def test_a_loss_that_does_not_fall_with_size_has_no_price_of_being_small():
    power_law, predict = fitting()
    rows = [dict(N=N, D=D, loss=1 + 9 / D**0.5) for N in (1e4, 4e4, 2e5) for D in (3e5, 1e6, 5e6)]
    E, A, a, B, b = power_law(rows)
    assert A / 1e4**a < 1e-6 and (E, b) == pytest.approx((1, 0.5), rel=1e-3)


def test_the_file_has_every_size_at_every_budget_with_three_seeds():
    results = json.loads((ROOT / "docs/assets/scaling.json").read_text("utf-8"))
    rows = results["rows"]
    assert (results["batch"], results["context"]) == (scaling.BATCH, Config().context), "run `make scaling`"
    budgets = sorted({row["budget"] for row in rows})
    assert len(budgets) == len(scaling.BUDGETS)
    assert [(row["budget"], row["width"]) for row in rows] == [(b, w) for b in budgets for w in scaling.WIDTHS]
    for row in rows:
        config = scaling.sized(row["width"])
        assert (row["N"], row["steps"]) == (scaling.multiplying(config), scaling.steps_for(row["budget"], config)), asdict(config)
        assert row["D"] == row["steps"] * scaling.BATCH * config.context
        assert len(row["losses"]) == len(row["seconds"]) == 3
    assert results["left_out"] in scaling.WIDTHS


def test_faults_are_one_line(capsys, tmp_path):
    with pytest.raises(SystemExit) as end:
        scaling.main(["--data", str(tmp_path / "nowhere.txt"), "--out", str(tmp_path / "scaling.json")])
    said = capsys.readouterr().err.strip()
    assert end.value.code == 2 and "nowhere.txt" in said and len(said.splitlines()) == 1
    assert not list(tmp_path.iterdir())
