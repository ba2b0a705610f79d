"""Visible, measurable, open to intervention."""

from itertools import combinations

import pytest
import torch

from tinyllm import Config, TinyLLM, encode, generate, intervene, ledger, next_logits, next_symbols, trace

MIX, WEIGHTS = "blocks.0.attention.mix", "blocks.1.attention.weights"


@pytest.fixture(scope="module")
def model():
    return TinyLLM.pretrained()


@pytest.fixture(scope="module")
def ids():
    return encode("the statement is")[None]


def hooks(model):
    return sum(len(module._forward_hooks) + len(module._forward_pre_hooks) for module in model.modules())


def zero_head(head):
    return lambda mix: mix.index_fill(1, torch.tensor([head]), 0.0)


# ------------------------------------------------------------------ trace

PATH = ["query", "q", "key", "k", "value", "v", "scores", "weights", "mix", "output"]
POST = [*(f"attention.{part}" for part in PATH), "sum1", "norm1", "ffn.up", "ffn.hidden", "ffn.down", "sum2", "norm2"]
PRE = ["norm1", *(f"attention.{part}" for part in PATH), "sum1", "norm2", "ffn.up", "ffn.hidden", "ffn.down", "sum2"]


@pytest.mark.parametrize("norm_first, block, end", [(False, POST, ["head"]), (True, PRE, ["norm", "head"])])
def test_a_trace_names_every_step_in_the_order_in_which_it_is_taken(norm_first, block, end, ids):
    model = TinyLLM(Config(norm_first=norm_first))
    with trace(model) as log:
        logits = model(ids)
    assert isinstance(log, dict)
    assert list(log) == ["embedding", "positions", "mask",
                         *(f"blocks.{i}.{name}" for i in range(2) for name in block), *end]
    assert log["head"].equal(logits) and list(log.values())[-1].equal(logits)
    leaves = [name for name, module in model.named_modules() if not list(module.children())]
    assert sorted(log) == sorted(leaves)


@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("bias", [False, True])
def test_a_trace_has_every_tensor_once(norm_first, bias, ids):
    """No two entries are the same numbers in the same shape. (query and q are the same numbers in two shapes.)"""
    torch.manual_seed(0)
    model = TinyLLM(Config(norm_first=norm_first, bias=bias))
    with torch.no_grad():
        for p in model.parameters():
            p.add_(0.1 * torch.randn_like(p))  # weight 1 and bias 0 of a LayerNorm hide nothing
    with trace(model) as log:
        model(ids)
    for one, other in combinations(log, 2):
        assert not (log[one].shape == log[other].shape and torch.allclose(log[one], log[other])), (one, other)


@pytest.mark.parametrize("norm_first", [False, True])
def test_the_tensors_of_a_trace_are_the_ones_of_the_formulas(norm_first, ids):
    """What a name says is what it holds: each from the ones before it, without a word of the package's code."""
    torch.manual_seed(0)
    model = TinyLLM(Config(norm_first=norm_first))
    with trace(model) as log:
        model(ids)

    def heads(x):  # (B, T, C) -> (B, H, T, D)
        return x.reshape(*x.shape[:2], 4, 16).permute(0, 2, 1, 3)

    def norm(x):
        return torch.nn.functional.layer_norm(x, (64,))

    close = torch.testing.assert_close
    assert log["embedding"].equal(model.embedding.weight[ids])
    assert log["mask"].equal(torch.full((16, 16), -torch.inf).triu(1))
    x = log["positions"]
    for i in range(2):
        here = {name.removeprefix(f"blocks.{i}."): tensor for name, tensor in log.items()}
        close(here["attention.query"], (norm(x) if norm_first else x) @ model.blocks[i].attention.query.weight.T)
        for whole, parts in zip(("query", "key", "value"), "qkv"):
            assert here[f"attention.{parts}"].equal(heads(here[f"attention.{whole}"]))
        close(here["attention.scores"], here["attention.q"] @ here["attention.k"].mT / 4)
        close(here["attention.weights"], (here["attention.scores"] + log["mask"]).softmax(-1))
        close(here["attention.mix"], here["attention.weights"] @ here["attention.v"])
        close(here["sum1"], x + here["attention.output"])
        close(here["ffn.hidden"], torch.nn.functional.gelu(here["ffn.up"]))
        if norm_first:
            close(here["norm1"], norm(x))
            close(here["norm2"], norm(here["sum1"]))
            close(here["sum2"], here["sum1"] + here["ffn.down"])
            x = here["sum2"]
        else:
            close(here["norm1"], norm(here["sum1"]))
            close(here["sum2"], here["norm1"] + here["ffn.down"])
            close(here["norm2"], norm(here["sum2"]))
            x = here["norm2"]
    close(log["head"], (norm(x) if norm_first else x) @ model.head.weight.T)


def test_trace_changes_nothing_and_leaves_no_hooks(model, ids):
    plain = model(ids)
    with trace(model) as log:
        assert model(ids).equal(plain)
    assert hooks(model) == 0 and not any(x.requires_grad for x in log.values())
    kept = {name: x.clone() for name, x in log.items()}
    model(ids[:, :3])
    assert all(log[name].equal(x) for name, x in kept.items())  # outside the with block nothing is recorded
    with pytest.raises(ValueError):
        with trace(model):
            model(ids.float())
    assert hooks(model) == 0


def test_gradients_flow_while_a_trace_looks_on(model, ids):
    gradients = []
    for looks in (False, True):
        if looks:
            with trace(model):
                model(ids).logsumexp(-1).sum().backward()
        else:
            model(ids).logsumexp(-1).sum().backward()
        gradients.append([p.grad.clone() for p in model.parameters()])
        model.zero_grad()
    assert all(one.equal(other) for one, other in zip(*gradients))


def test_a_trace_prints_a_line_for_each_tensor(model, ids):
    with trace(model) as log:
        model(ids)
    head, _, *lines = str(log).splitlines()
    assert head.split() == ["name", "shape", "mean", "std"] and len(lines) == len(log)
    for line, (name, x) in zip(lines, log.items()):
        assert line.split()[0] == name and str(tuple(x.shape)) in line
        if name != "mask":
            assert [float(number) for number in line.split()[-2:]] == pytest.approx([x.mean().item(), x.std(correction=0).item()], abs=1e-4)
    assert "(1, 4, 16, 16)" in str(log) and str(log).count("inf") == 1  # the mask is made of 0 and -inf


@pytest.mark.parametrize("prompt", ["a", "the statement is", "é中🙂", "x" * 128], ids=ascii)
def test_attention_weights_are_weights_of_the_past(model, prompt):
    with trace(model) as log:
        next_logits(model, encode(prompt))
    T = len(encode(prompt))
    for i in range(2):
        weights = log[f"blocks.{i}.attention.weights"]
        assert weights.shape == (1, 4, T, T)
        torch.testing.assert_close(weights.sum(-1), torch.ones(1, 4, T))
        assert (weights.triu(1) == 0).all() and (weights >= 0).all()


def test_a_trace_of_several_runs_holds_the_last(model, ids):
    with trace(model) as log:
        list(generate(model, "The ", tokens=2))
        model(ids)
    assert log["head"].shape[1] == ids.shape[1] and list(log)[-1] == "head"


# ------------------------------------------------------------------ intervene

def test_none_leaves_and_a_tensor_replaces(model, ids):
    plain = model(ids)
    with intervene(model, {MIX: lambda mix: None}) as same:
        assert same is model and model(ids).equal(plain)
    with intervene(model, {"head": torch.zeros_like}):
        assert (model(ids) == 0).all()
    with intervene(model, {}):
        assert model(ids).equal(plain)
    assert model(ids).equal(plain) and hooks(model) == 0


def test_every_tensor_that_a_trace_names_can_be_replaced_and_the_logits_notice(ids):
    for norm_first in (False, True):
        torch.manual_seed(0)
        model = TinyLLM(Config(norm_first=norm_first))
        with trace(model) as log:
            plain = model(ids)
        for name in log:
            change = torch.zeros_like if name == "mask" else lambda x: x + torch.linspace(0, 1, x.shape[-1])
            with intervene(model, {name: change}):
                assert not torch.allclose(model(ids), plain), name


def test_a_head_that_is_switched_off_is_off_and_no_other(model, ids):
    with trace(model) as log:
        plain = model(ids)
    with intervene(model, {MIX: zero_head(2)}), trace(model) as changed:
        assert not model(ids).equal(plain)
    before, after = log[MIX], changed[MIX]
    assert (after[:, 2] == 0).all() and after[:, [0, 1, 3]].equal(before[:, [0, 1, 3]])


def test_several_changes_at_once_each_act_on_their_part(model, ids):
    changes = {MIX: zero_head(0), "blocks.1.attention.mix": zero_head(3)}  # each keeps its own function
    with intervene(model, changes), trace(model) as log:
        model(ids)
    assert (log[MIX][:, 0] == 0).all() and (log[MIX][:, 3] != 0).any()
    assert (log["blocks.1.attention.mix"][:, 3] == 0).all() and (log["blocks.1.attention.mix"][:, 0] != 0).any()


def test_a_part_with_parts_can_be_replaced_too(model, ids):
    with intervene(model, {"blocks.0.attention": torch.zeros_like}), trace(model) as log:
        model(ids)
    assert log["blocks.0.sum1"].equal(log["positions"])


def test_the_mask_of_all_blocks_can_be_opened_and_closed_further(model, ids):
    plain = model(ids)
    with intervene(model, {"mask": torch.zeros_like}), trace(model) as log:
        opened = model(ids)
    for i in range(2):
        assert (log[f"blocks.{i}.attention.weights"] > 0).all()
    assert not opened[0, 0].equal(plain[0, 0])  # the first symbol sees the ones after it
    diagonal = torch.eye(16).bool()
    with intervene(model, {"mask": lambda mask: mask.masked_fill(diagonal, -torch.inf).index_fill(
            0, torch.tensor([0]), 0.0)}), trace(model) as log:
        model(ids)
    for i in range(2):
        weights = log[f"blocks.{i}.attention.weights"][0]
        assert (weights.diagonal(dim1=1, dim2=2)[:, 1:] == 0).all() and (weights[:, 1:].triu(1) == 0).all()
    assert model(ids).equal(plain)


def test_a_patched_activation_carries_the_prediction_over(model):
    """Every vector of the stream of one prompt put into another: the second predicts as the first."""
    one, other = encode("the statement is")[None], encode("a regular expres")[None]
    with trace(model) as log:
        wanted = model(one)
    with intervene(model, {"blocks.1.norm2": lambda x: log["blocks.1.norm2"]}):
        torch.testing.assert_close(model(other), wanted)


def test_gradients_flow_through_an_intervention(model, ids):
    scale = torch.ones(1, requires_grad=True)
    with intervene(model, {"blocks.0.norm2": lambda x: x * scale}):
        model(ids).logsumexp(-1).sum().backward()
    assert scale.grad.abs() > 0
    model.zero_grad()


@pytest.mark.parametrize("name", ["blocks.7.attention.mix", "blocks.0.attention.nose", "residual"])
def test_an_unknown_name_is_named_and_the_changes_before_it_are_undone(model, ids, name):
    plain = model(ids)
    with pytest.raises(AttributeError, match=f"no attribute `{'7' if '7' in name else name.split('.')[-1]}`"):
        with intervene(model, {MIX: zero_head(0), name: zero_head(0)}):
            pass
    assert hooks(model) == 0 and model(ids).equal(plain)


def test_a_change_that_fails_leaves_no_hooks(model, ids):
    with pytest.raises(ZeroDivisionError):
        with intervene(model, {MIX: lambda mix: 1 / 0}):
            model(ids)
    assert hooks(model) == 0


# ------------------------------------------------------------------ tables

def test_next_symbols_are_the_likeliest(model):
    best = next_symbols(model, "the q", top=3)
    p = next_logits(model, encode("the q")).softmax(0)
    assert isinstance(best, list) and len(best) == 3 and best[0][0] == "u"
    assert dict(best)["u"] == pytest.approx(p[ord("u")].item())
    assert [probability for _, probability in best] == pytest.approx(p.sort(descending=True).values[:3].tolist())


@pytest.mark.parametrize("sizes", [{}, dict(norm_first=True, bias=True, n_layers=1)])
def test_the_ledger_names_every_tensor_and_adds_up(sizes):
    model = TinyLLM(Config(**sizes))
    table = ledger(model)
    head, _, *rows, total = table.splitlines()
    assert isinstance(table, str) and head.split() == ["tensor", "shape", "parameters"]
    counts = [int(row.split()[-1].replace(",", "")) for row in (*rows, total)]
    assert [row.split()[0] for row in rows] == [name for name, _ in model.named_parameters()]
    assert all(str(tuple(p.shape)) in row for row, p in zip(rows, model.parameters()))
    assert counts[:-1] == [p.numel() for p in model.parameters()] and sum(counts[:-1]) == counts[-1]
    assert total.split()[0] == "total"


def test_any_prompt_but_an_empty_one(model):
    with pytest.raises(ValueError, match="empty"):
        next_symbols(model, "")


@pytest.mark.slow
@pytest.mark.parametrize("compiled", [lambda model: torch.compile(model, backend="eager"), lambda model: model.compile(backend="eager") or model],
                         ids=["a compiled copy", "compiled in place"])
def test_a_compiled_model_is_seen_and_changed_too(compiled):
    """torch.compile does not look for hooks that come after its first run."""
    model, ids = TinyLLM(), encode("the q")[None]
    plain = model(ids)
    fast = compiled(model)
    torch.testing.assert_close(fast(ids), plain)
    with trace(model) as log:
        fast(ids)
    assert len(log) > 30 and log["head"].equal(plain)
    with intervene(model, {"blocks.0.ffn": torch.zeros_like}):
        changed = fast(ids)
    assert not changed.allclose(plain)
    torch.testing.assert_close(fast(ids), plain)
