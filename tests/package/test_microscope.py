"""Visible, measurable, open to intervention."""

import pytest
import torch

from tinyllm import (Config, TinyLLM, attention_maps, draw_attention, encode, intervene, ledger, next_logits,
                     next_symbols, trace, zero_head)

MIX, WEIGHTS = "blocks.0.attention.mix", "blocks.1.attention.weights"


@pytest.fixture(scope="module")
def model():
    return TinyLLM.pretrained()


@pytest.fixture(scope="module")
def ids():
    return encode("the statement is")[None]


def hooks(model):
    return sum(len(module._forward_hooks) for module in model.modules())


# ------------------------------------------------------------------ trace

def test_trace_has_a_row_for_every_step_in_order(model, ids):
    with trace(model) as log:
        logits = model(ids)
    names = [row.name for row in log]
    leaves = [name for name, module in model.named_modules() if not list(module.children())]
    assert sorted(names) == sorted(leaves)
    assert names[0] == "embedding" and names[1] == "positions" and names[-1] == "head"
    path = [names.index(f"blocks.0.attention.{step}") for step in ("q", "k", "v", "scores", "weights", "mix", "output")]
    assert path == sorted(path)
    assert log["head"].equal(logits) and log[-1].tensor.equal(logits)
    for row in log:
        assert row.shape == tuple(row.tensor.shape)
        assert row.mean == pytest.approx(row.tensor.mean().item()) and row.std == pytest.approx(row.tensor.std(correction=0).item())


def test_trace_changes_nothing_and_leaves_no_hooks(model, ids):
    plain = model(ids)
    with trace(model):
        assert model(ids).equal(plain)
    assert hooks(model) == 0
    with pytest.raises(ValueError):
        with trace(model):
            model(ids.float())
    assert hooks(model) == 0


def test_a_trace_prints_shapes(model, ids):
    with trace(model) as log:
        model(ids)
    lines = str(log).splitlines()
    assert len(lines) == len(log) + 2 and "(1, 4, 16, 16)" in str(log) and "blocks.1.residual" in str(log)


def test_attention_weights_are_weights_of_the_past(model):
    maps = attention_maps(model, "the statement is")
    assert maps.shape == (2, 4, 16, 16)
    torch.testing.assert_close(maps.sum(-1), torch.ones(2, 4, 16))
    assert (maps.triu(1) == 0).all() and (maps >= 0).all()


# ------------------------------------------------------------------ intervene

def test_none_leaves_and_a_tensor_replaces(model, ids):
    plain = model(ids)
    with intervene(model, {MIX: lambda mix: None}):
        assert model(ids).equal(plain)
    with intervene(model, {"head": torch.zeros_like}):
        assert (model(ids) == 0).all()
    assert model(ids).equal(plain) and hooks(model) == 0


def test_zero_head_switches_off_that_head_and_no_other(model, ids):
    with trace(model) as log:
        plain = model(ids)
    with intervene(model, {MIX: zero_head(2)}), trace(model) as changed:
        assert not model(ids).equal(plain)
    before, after = log[MIX], changed[MIX]
    assert (after[:, 2] == 0).all() and after[:, [0, 1, 3]].equal(before[:, [0, 1, 3]])


def test_a_patched_activation_carries_the_prediction_over(model):
    """Every residual vector of one prompt put into another: the second predicts as the first."""
    one, other = encode("the statement is")[None], encode("a regular expres")[None]
    with trace(model) as log:
        wanted = model(one)
    with intervene(model, {"blocks.1.residual": lambda x: log["blocks.1.residual"]}):
        torch.testing.assert_close(model(other), wanted)


def test_gradients_flow_through_an_intervention(model, ids):
    scale = torch.ones(1, requires_grad=True)
    with intervene(model, {"blocks.0.residual": lambda x: x * scale}):
        model(ids).logsumexp(-1).sum().backward()
    assert scale.grad.abs() > 0
    model.zero_grad()


def test_an_unknown_name_is_named(model):
    with pytest.raises(AttributeError, match="no attribute `7`"):
        with intervene(model, {"blocks.7.mix": zero_head(0)}):
            pass
    assert hooks(model) == 0


# ------------------------------------------------------------------ tables and pictures

def test_next_symbols_are_the_likeliest(model):
    table = next_symbols(model, "the q", top=3)
    p = next_logits(model, encode("the q")).softmax(0)
    assert table[0][0] == "u" and table["u"] == pytest.approx(p[ord("u")].item()) and len(table) == 3
    assert [row[1] for row in table] == pytest.approx(p.sort(descending=True).values[:3].tolist())


def test_the_ledger_adds_up(model):
    *rows, total = ledger(model)
    assert total[-1] == sum(row[-1] for row in rows) == sum(p.numel() for p in model.parameters())


def test_the_picture_has_a_map_for_every_head(model, tmp_path):
    figure = draw_attention(model, "the q")
    assert [axes.get_title() for axes in figure.axes] == [f"layer {i}, head {j}" for i in range(2) for j in range(4)]
    for axes, weights in zip(figure.axes, attention_maps(model, "the q").flatten(0, 1)):
        assert torch.as_tensor(axes.images[0].get_array().data).equal(weights)
        assert [label.get_text() for label in axes.get_xticklabels()] == ["t", "h", "e", "␣", "q"]
    figure.savefig(tmp_path / "attention.png")


def test_any_prompt_can_be_drawn_the_end_of_a_long_one():
    model = TinyLLM(Config(context=1500, n_layers=1, n_heads=2))
    maps = attention_maps(model, "0123456789" * 150)
    assert maps.shape[-1] == 1500
    figure = draw_attention(model, "0123456789" * 150)
    for axes, weights in zip(figure.axes, maps[0]):
        assert torch.as_tensor(axes.images[0].get_array().data).equal(weights[-100:, -100:])
        assert [label.get_text() for label in axes.get_yticklabels()] == [*"0123456789" * 10]


@pytest.mark.parametrize("look", [next_symbols, attention_maps, draw_attention])
def test_any_prompt_but_an_empty_one(model, look):
    with pytest.raises(ValueError, match="empty"):
        look(model, "")
