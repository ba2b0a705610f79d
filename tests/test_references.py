"""Numbers against references nobody here wrote: PyTorch's own modules and the papers' formulas."""

import copy

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from tinyllm import Config, TinyLLM, causal_mask
from tinyllm.block import Block, FeedForward
from tinyllm.bricks import Embedding, LayerNorm, Linear, Positions

shapes = dict(B=st.integers(1, 3), T=st.integers(1, 9), H=st.integers(1, 4), D=st.sampled_from([2, 4, 6]),
              bias=st.booleans(), seed=st.integers(0, 2**31))


def random_model(seed=0, **sizes):
    torch.manual_seed(seed)
    model = TinyLLM(Config(**sizes))
    with torch.no_grad():
        for p in model.parameters():  # an initialisation may hold zeros, behind which mistakes hide
            p.copy_(torch.randn_like(p) * 0.2 + (p.dim() == 1))
    return model


# ------------------------------------------------------------------ bricks

@given(st.integers(1, 50), st.integers(1, 20), st.lists(st.integers(1, 5), max_size=3))
@settings(deadline=None)
def test_embedding_is_torchs(symbols, dim, shape):
    ours, theirs = Embedding(symbols, dim), nn.Embedding(symbols, dim)
    theirs.load_state_dict(ours.state_dict())
    ids = torch.randint(symbols, shape)
    assert ours(ids).equal(theirs(ids))
    ours(ids).square().sum().backward()
    theirs(ids).square().sum().backward()
    torch.testing.assert_close(ours.weight.grad, theirs.weight.grad)


@given(st.integers(1, 20), st.integers(1, 20), st.booleans(), st.sampled_from([torch.float32, torch.float64]))
@settings(deadline=None)
def test_linear_is_torchs(inputs, outputs, bias, dtype):
    ours, theirs = Linear(inputs, outputs, bias).to(dtype), nn.Linear(inputs, outputs, bias, dtype=dtype)
    theirs.load_state_dict(ours.state_dict())
    x = torch.randn(3, 4, inputs, dtype=dtype)
    torch.testing.assert_close(ours(x), theirs(x))


@given(st.integers(2, 40), st.floats(0.01, 100), st.sampled_from([torch.float32, torch.float64]))
@settings(deadline=None)
def test_layer_norm_is_torchs(dim, scale, dtype):
    ours, theirs = LayerNorm(dim).to(dtype), nn.LayerNorm(dim, dtype=dtype)
    with torch.no_grad():
        ours.weight.normal_(), ours.bias.normal_()
    theirs.load_state_dict(ours.state_dict())
    x = torch.randn(5, dim, dtype=dtype) * scale + scale
    torch.testing.assert_close(ours(x), theirs(x), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("brick", [Linear(3, 4, bias=True), LayerNorm(6), FeedForward(Config(d_model=4, d_ff=6)),
                                   Block(Config(d_model=4, n_heads=2)), Block(Config(d_model=4, norm_first=True))],
                         ids=lambda brick: type(brick).__name__)
def test_gradients_are_the_derivatives(brick):
    brick = copy.deepcopy(brick).double()
    width = {"Linear": 3, "LayerNorm": 6}.get(type(brick).__name__, 4)
    x = torch.randn(2, 3, width, dtype=torch.float64, requires_grad=True)
    names, parameters = zip(*brick.named_parameters())
    parameters = [torch.randn_like(p).requires_grad_() for p in parameters]
    assert torch.autograd.gradcheck(
        lambda x, *p: torch.func.functional_call(brick, dict(zip(names, p)), (x,)), (x, *parameters))


def test_positions_are_the_papers_formula():
    table = Positions(50, 8)(torch.zeros(50, 8))
    for t, i in ((0, 0), (7, 2), (49, 3)):
        angle = torch.tensor(t / 10000 ** (2 * i / 8), dtype=torch.float64)
        assert table[t, 2 * i].item() == pytest.approx(angle.sin().item(), abs=1e-6)
        assert table[t, 2 * i + 1].item() == pytest.approx(angle.cos().item(), abs=1e-6)


def test_products_of_positions_depend_on_their_distance_only():
    table = Positions(64, 64)(torch.zeros(64, 64)).double()
    products = table @ table.T
    for distance in (0, 1, 9, 40):
        diagonal = products.diagonal(distance)
        torch.testing.assert_close(diagonal, diagonal[0].expand_as(diagonal), rtol=0, atol=1e-4)


def test_the_mask():
    assert causal_mask(3).tolist() == [[0, -torch.inf, -torch.inf], [0, 0, -torch.inf], [0, 0, 0]]


# ------------------------------------------------------------------ attention and block

def torch_attention(ours, C, H, bias):
    """nn.MultiheadAttention with the weights of our attention: its in_proj is our three, stacked."""
    theirs = nn.MultiheadAttention(C, H, bias=bias, batch_first=True)
    state = ours.state_dict()
    with torch.no_grad():
        for kind in ["weight"] + ["bias"] * bias:
            packed = torch.cat([state[f"{name}.{kind}"] for name in ("query", "key", "value")])
            getattr(theirs, f"in_proj_{kind}").copy_(packed)
            getattr(theirs.out_proj, kind).copy_(state[f"output.{kind}"])
    return theirs


@given(**shapes)
@settings(deadline=None, max_examples=30)
def test_attention_is_torchs(B, T, H, D, bias, seed):
    C = H * D
    ours = random_model(seed, d_model=C, n_heads=H, context=9, bias=bias).blocks[0].attention
    theirs = torch_attention(ours, C, H, bias)
    x, y = (torch.randn(B, T, C).requires_grad_() for _ in range(2))
    y.data.copy_(x.data)
    seen = []
    ours.weights.register_forward_hook(lambda _, args, weights: seen.append(weights))
    expected, weights = theirs(y, y, y, attn_mask=causal_mask(T), average_attn_weights=False)
    torch.testing.assert_close(ours(x), expected, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(seen[0], weights, rtol=1e-4, atol=1e-5)
    ours(x).square().sum().backward()
    theirs(y, y, y, attn_mask=causal_mask(T))[0].square().sum().backward()
    torch.testing.assert_close(x.grad, y.grad, rtol=1e-3, atol=1e-3)


@given(norm_first=st.booleans(), **shapes)
@settings(deadline=None, max_examples=30)
def test_block_is_torchs(B, T, H, D, bias, norm_first, seed):
    C = H * D
    model = random_model(seed, d_model=C, n_heads=H, d_ff=3 * C, context=9, bias=bias, norm_first=norm_first)
    ours = model.blocks[0]
    theirs = torch_block(ours, C, H, bias, norm_first)
    x = torch.randn(B, T, C)
    torch.testing.assert_close(ours(x), theirs(x, src_mask=causal_mask(T)), rtol=1e-4, atol=1e-4)


def torch_block(ours, C, H, bias, norm_first):
    """nn.TransformerEncoderLayer with the weights of our block and the nonlinearity the block uses."""
    theirs = nn.TransformerEncoderLayer(C, H, ours.ffn.up.weight.shape[0], dropout=0.0, batch_first=True,
                                        activation=nonlinearity(ours.ffn), norm_first=norm_first)
    theirs.self_attn = torch_attention(ours.attention, C, H, bias)
    with torch.no_grad():
        for mine, name in ((ours.ffn.up, "linear1"), (ours.ffn.down, "linear2")):
            getattr(theirs, name).weight.copy_(mine.weight)
            getattr(theirs, name).bias.copy_(mine.bias if bias else torch.zeros(mine.weight.shape[0]))
    theirs.norm1.load_state_dict(ours.norm1.state_dict())
    theirs.norm2.load_state_dict(ours.norm2.state_dict())
    return theirs


def nonlinearity(ffn):
    """The function between the two matrices, read off the FFN itself."""
    def function(x):
        identity = copy.deepcopy(ffn)
        with torch.no_grad():
            for linear in (identity.up, identity.down):
                linear.weight = nn.Parameter(torch.eye(x.shape[-1]))
                linear.bias = None
        return identity(x)
    grid = torch.linspace(-4, 4, 101)[:, None]
    for candidate in (nn.functional.gelu, nn.functional.relu):
        if torch.allclose(function(grid), candidate(grid), atol=1e-6):
            return candidate
    raise AssertionError("the FFN bends with neither GELU nor ReLU")


@pytest.mark.parametrize("norm_first", [False, True])
def test_model_is_torchs_encoder_between_embedding_and_head(norm_first):
    C, H = 12, 3
    model = random_model(5, d_model=C, n_heads=H, d_ff=20, n_layers=3, norm_first=norm_first, context=16)
    ids = torch.randint(256, (2, 16))
    x = model.positions(nn.functional.embedding(ids, model.embedding.weight))
    for block in model.blocks:
        x = torch_block(block, C, H, False, norm_first)(x, src_mask=causal_mask(16))
    if norm_first:
        x = nn.functional.layer_norm(x, (C,), model.norm.weight, model.norm.bias)
    torch.testing.assert_close(model(ids), x @ model.head.weight.T, rtol=1e-4, atol=1e-4)
