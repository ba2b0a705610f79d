"""Numbers against references nobody here wrote: PyTorch's own modules and the papers' formulas.

Each brick, attention, the FFN, the block and the model is given the weights of its counterpart in torch.nn,
and has to give the same outputs and the same gradients of inputs and parameters, in both precisions.
"""

import copy
import math
from collections import Counter

import pytest
import torch
import torch.nn.functional as F
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from torch import nn

from tinyllm import Config, TinyLLM, causal_mask, evaluate, train
from tinyllm.model import Attention, Block, Embedding, FeedForward, LayerNorm, Linear, Positions

dtypes = st.sampled_from([torch.float32, torch.float64])
seeds = st.integers(0, 2**31)
seed_torch = torch.default_generator.manual_seed  # torch.manual_seed sees to GPUs too, 10 ms each time
shapes = dict(B=st.integers(1, 3), T=st.integers(1, 9), H=st.integers(1, 4), D=st.sampled_from([2, 4, 6]),
              bias=st.booleans(), dtype=dtypes, seed=seeds)


def random_model(seed=0, **sizes):
    seed_torch(seed)
    return shake(TinyLLM(Config(**sizes)))


def shake(module):
    with torch.no_grad():
        for p in module.parameters():  # an initialisation may hold zeros, behind which mistakes hide
            p.copy_(torch.randn_like(p) * 0.2 + (p.dim() == 1))
    return module


def mask_of_torch(T, dtype=torch.float32):
    return nn.Transformer.generate_square_subsequent_mask(T, dtype=dtype)


def close(ours, theirs, what="output"):
    tolerance = {torch.float32: 1e-4, torch.float64: 1e-11}[ours.dtype] * max(1, theirs.abs().max().item())
    torch.testing.assert_close(ours, theirs, rtol=0, atol=tolerance, msg=lambda text: f"{what}: {text}")


def compare(ours, theirs, inputs, names=dict, reference=None, mask=()):
    """The same outputs, and the same gradients of inputs and parameters when the loss pulls in a random direction.
    `names` takes our parameters (or their gradients) to PyTorch's names for them; `mask` is handed to ours too."""
    theirs.load_state_dict(names(ours.state_dict()))  # strict: what a checkpoint holds has its counterpart, and no more
    mine, yours = (inputs.clone().requires_grad_(inputs.is_floating_point()) for _ in range(2))
    output, expected = ours(mine, *mask), (reference or theirs)(yours)
    close(output, expected)
    pull = torch.randn_like(output)
    output.backward(pull), expected.backward(pull)
    if inputs.is_floating_point():
        close(mine.grad, yours.grad, "gradient of the input")
    gradients = names({name: p.grad for name, p in ours.named_parameters()})
    for name, p in theirs.named_parameters():
        close(gradients[name], p.grad, f"gradient of {name}")


def well_conditioned(width, dtype):
    """The norm of a vector of two or three numbers is nearly a step: in float32 its slope is rounding and little else."""
    assume(width >= 4 or dtype == torch.float64)


# ------------------------------------------------------------------ our names -> PyTorch's

def below(prefix, tensors):
    return {name.removeprefix(prefix): t for name, t in tensors.items() if name.startswith(prefix)}


def attention_names(ours):
    """PyTorch packs the three matrices of queries, keys and values into one."""
    theirs = {}
    for kind in {name.rpartition(".")[2] for name in ours}:
        theirs[f"in_proj_{kind}"] = torch.cat([ours[f"{name}.{kind}"] for name in ("query", "key", "value")])
        theirs[f"out_proj.{kind}"] = ours[f"output.{kind}"]
    return theirs


def block_names(ours):
    theirs = {f"self_attn.{name}": t for name, t in attention_names(below("attention.", ours)).items()}
    for mine, yours in (("ffn.up.", "linear1."), ("ffn.down.", "linear2."), ("norm1.", "norm1."), ("norm2.", "norm2.")):
        theirs |= {yours + name: t for name, t in below(mine, ours).items()}
    return theirs


def model_names(ours):
    theirs = {"0.weight": ours["embedding.weight"]} | {f"2.{name}": t for name, t in below("head.", ours).items()}
    theirs |= {f"1.norm.{name}": t for name, t in below("norm.", ours).items()}
    for i in {name.split(".")[1] for name in ours if name.startswith("blocks.")}:
        theirs |= {f"1.layers.{i}.{name}": t for name, t in block_names(below(f"blocks.{i}.", ours)).items()}
    return theirs


def torch_block(ours, C, H, bias, norm_first, dtype):
    """A TransformerEncoderLayer of the same sizes, with biases in the same places as in our block."""
    theirs = nn.TransformerEncoderLayer(C, H, ours.ffn.up.weight.shape[0], dropout=0.0, batch_first=True,
                                        activation=nonlinearity(ours.ffn), norm_first=norm_first, dtype=dtype)
    if not bias:
        theirs.self_attn = nn.MultiheadAttention(C, H, bias=False, batch_first=True, dtype=dtype)
        theirs.linear1.bias = theirs.linear2.bias = None
    return theirs


def nonlinearity(ffn):
    """The function between the two matrices, read off the FFN itself."""
    def function(x):
        identity = copy.deepcopy(ffn).float()
        with torch.no_grad():
            for linear in (identity.up, identity.down):
                linear.weight = nn.Parameter(torch.eye(x.shape[-1]))
                linear.bias = None
        return identity(x)
    grid = torch.linspace(-4, 4, 101)[:, None]
    for candidate in (F.gelu, F.relu):
        if torch.allclose(function(grid), candidate(grid), atol=1e-6):
            return candidate
    raise AssertionError("the FFN bends with neither GELU nor ReLU")


# ------------------------------------------------------------------ bricks

@given(st.integers(1, 50), st.integers(1, 20), st.lists(st.integers(1, 5), max_size=3), dtypes, seeds)
def test_embedding_is_torchs(symbols, dim, shape, dtype, seed):
    seed_torch(seed)
    compare(Embedding(symbols, dim).to(dtype), nn.Embedding(symbols, dim, dtype=dtype), torch.randint(symbols, shape))


@given(st.integers(1, 20), st.integers(1, 20), st.booleans(), st.lists(st.integers(1, 4), max_size=3), dtypes, seeds)
def test_linear_is_torchs(inputs, outputs, bias, shape, dtype, seed):
    seed_torch(seed)
    ours, theirs = shake(Linear(inputs, outputs, bias).to(dtype)), nn.Linear(inputs, outputs, bias, dtype=dtype)
    compare(ours, theirs, torch.randn(*shape, inputs, dtype=dtype))


def test_a_linear_has_no_bias_unless_asked():
    assert Linear(3, 2).bias is None and Linear(3, 2, bias=True).bias.shape == (2,)


@given(st.integers(2, 40), st.floats(0.01, 100), st.lists(st.integers(1, 4), max_size=3), dtypes, seeds)
def test_layer_norm_is_torchs(dim, scale, shape, dtype, seed):
    well_conditioned(dim, dtype)
    seed_torch(seed)
    ours, theirs = shake(LayerNorm(dim).to(dtype)), nn.LayerNorm(dim, dtype=dtype)
    compare(ours, theirs, torch.randn(*shape, dim, dtype=dtype) * scale + scale)


@pytest.mark.parametrize("dim", [2, 8, 64])
def test_positions_are_the_papers_formula(dim):
    table = Positions("any")(torch.zeros(3, 50, dim))[1]
    for t in range(50):
        for i in range(dim // 2):
            angle = t / 10000 ** (2 * i / dim)
            assert table[t, 2 * i].item() == pytest.approx(math.sin(angle), abs=1e-5)
            assert table[t, 2 * i + 1].item() == pytest.approx(math.cos(angle), abs=1e-5)


@given(B=st.integers(1, 3), T=st.integers(0, 9), dtype=dtypes, seed=seeds)
def test_positions_are_added_and_nothing_else(B, T, dtype, seed):
    seed_torch(seed)
    x = torch.randn(B, T, 6, dtype=dtype)
    table = Positions("any")(torch.zeros(T, 6))
    assert Positions("any")(x).equal(x + table.to(dtype)) and not list(Positions("any").parameters())


def test_products_of_positions_depend_on_their_distance_only():
    table = Positions("any")(torch.zeros(64, 64)).double()
    products = table @ table.T
    for distance in (0, 1, 9, 40):
        diagonal = products.diagonal(distance)
        torch.testing.assert_close(diagonal, diagonal[0].expand_as(diagonal), rtol=0, atol=1e-4)


@pytest.mark.parametrize("length", [0, 1, 2, 3, 8, 64])
def test_the_mask_is_torchs(length):
    assert causal_mask(length).equal(mask_of_torch(length))


def test_the_mask_of_three():
    assert causal_mask(3).tolist() == [[0, -torch.inf, -torch.inf], [0, 0, -torch.inf], [0, 0, 0]]


# ------------------------------------------------------------------ attention, FFN, block

@given(**shapes)
@settings(max_examples=50)
def test_attention_is_torchs(B, T, H, D, bias, dtype, seed):
    ours = random_model(seed, d_model=H * D, n_heads=H, context=9, bias=bias).blocks[0].attention.to(dtype)
    theirs = nn.MultiheadAttention(H * D, H, bias=bias, batch_first=True, dtype=dtype)
    inputs, mask, seen = torch.randn(B, T, H * D, dtype=dtype), mask_of_torch(T, dtype), []
    hook = ours.weights.register_forward_hook(lambda _, args, weights: seen.append(weights))
    compare(ours, theirs, inputs, attention_names, lambda x: theirs(x, x, x, attn_mask=mask)[0], mask=[mask])
    hook.remove()
    close(seen[0], theirs(*[inputs] * 3, attn_mask=mask, average_attn_weights=False)[1], "attention weights")


@given(**shapes)
@settings(max_examples=30)
def test_attention_is_torchs_with_any_mask_that_is_handed_in(B, T, H, D, bias, dtype, seed):
    """Numbers are added to the scores, whatever they are: a slope over the distance, closed doors anywhere."""
    ours = random_model(seed, d_model=H * D, n_heads=H, context=9, bias=bias).blocks[0].attention.to(dtype)
    theirs = nn.MultiheadAttention(H * D, H, bias=bias, batch_first=True, dtype=dtype)
    mask = torch.randn(T, T, dtype=dtype).masked_fill((torch.rand(T, T) < 0.3) & ~torch.eye(T).bool(), -torch.inf)
    compare(ours, theirs, torch.randn(B, T, H * D, dtype=dtype), attention_names,
            lambda x: theirs(x, x, x, attn_mask=mask)[0], mask=[mask])


@given(**shapes)
@settings(max_examples=30)
def test_what_the_heads_mix_is_scaled_dot_product_attention(B, T, H, D, bias, dtype, seed):
    attention = random_model(seed, d_model=H * D, n_heads=H, context=9, bias=bias).blocks[0].attention.to(dtype)
    seen = {}
    for name in ("q", "k", "v", "mix"):
        getattr(attention, name).register_forward_hook(lambda _, args, x, name=name: seen.setdefault(name, x))
    attention(torch.randn(B, T, H * D, dtype=dtype), causal_mask(T).to(dtype))
    assert seen["q"].shape == (B, H, T, D)
    close(seen["mix"], F.scaled_dot_product_attention(seen["q"], seen["k"], seen["v"], is_causal=True))


@given(st.integers(1, 20), st.booleans(), dtypes, seeds)
@settings(max_examples=30)
def test_ffn_is_two_linears_and_a_bend(width, bias, dtype, seed):
    seed_torch(seed)
    ours = shake(FeedForward(Config(d_model=6, n_heads=1, d_ff=width, bias=bias)).to(dtype))
    theirs = nn.ModuleDict(dict(up=nn.Linear(6, width, bias, dtype=dtype), down=nn.Linear(width, 6, bias, dtype=dtype)))
    bend = nonlinearity(ours)
    compare(ours, theirs, torch.randn(2, 3, 6, dtype=dtype), reference=lambda x: theirs.down(bend(theirs.up(x))))


@given(norm_first=st.booleans(), **shapes)
@settings(max_examples=50)
def test_block_is_torchs(B, T, H, D, bias, norm_first, dtype, seed):
    well_conditioned(C := H * D, dtype)
    model = random_model(seed, d_model=C, n_heads=H, d_ff=3 * C, context=9, bias=bias, norm_first=norm_first)
    ours, mask = model.blocks[0].to(dtype), mask_of_torch(T, dtype)
    theirs = torch_block(ours, C, H, bias, norm_first, dtype)
    compare(ours, theirs, torch.randn(B, T, C, dtype=dtype), block_names, lambda x: theirs(x, src_mask=mask), mask=[mask])


# ------------------------------------------------------------------ the model

@given(norm_first=st.booleans(), layers=st.integers(1, 3), symbols=st.integers(1, 40), **shapes)
@settings(max_examples=50)
def test_model_is_torchs(B, T, H, D, bias, norm_first, layers, symbols, dtype, seed):
    """nn.Embedding, sines and cosines, nn.TransformerEncoder and nn.Linear, put together."""
    well_conditioned(C := H * D, dtype)
    ours = random_model(seed, vocab_size=symbols, d_model=C, n_heads=H, d_ff=2 * C, n_layers=layers, context=9,
                        bias=bias, norm_first=norm_first).to(dtype)
    layer = torch_block(ours.blocks[0], C, H, bias, norm_first, dtype)
    norm = nn.LayerNorm(C, dtype=dtype) if norm_first else None
    theirs = nn.Sequential(nn.Embedding(symbols, C, dtype=dtype),
                           nn.TransformerEncoder(layer, layers, norm, enable_nested_tensor=False),
                           nn.Linear(C, symbols, bias, dtype=dtype))
    angles = [[t / 10000 ** (2 * (i // 2) / C) for i in range(C)] for t in range(T)]
    waves = torch.tensor([[(math.cos if i % 2 else math.sin)(a) for i, a in enumerate(row)] for row in angles])
    rounded = ours.positions(torch.zeros(T, C))  # float32 in a model of either precision
    close(rounded, waves, "positions")

    def reference(ids):
        embedding, encoder, head = theirs
        return head(encoder(embedding(ids) + rounded.to(dtype), mask=mask_of_torch(T, dtype)))

    compare(ours, theirs, torch.randint(symbols, (B, T)), model_names, reference)


@pytest.mark.parametrize("norm_first", [False, True])
def test_every_module_takes_part_exactly_once(norm_first):
    """The hook points compute nothing: only that they are called tells that they are in the way.
    In both orders all modules are called, so that none is there for nothing (post-norm has no last norm)."""
    model, called = random_model(d_model=4, n_heads=2, d_ff=3, context=5, norm_first=norm_first), Counter()
    for name, module in model.named_modules():
        module.register_forward_hook(lambda *_, name=name: called.update([name]))
    model(torch.zeros(1, 5, dtype=torch.int64))
    assert called == {name: 1 for name, module in model.named_modules() if not isinstance(module, nn.ModuleList)}
    assert (model.norm is None) != norm_first


# ------------------------------------------------------------------ derivatives

TINY = dict(vocab_size=5, d_model=4, n_heads=2, d_ff=3, n_layers=1, context=3)


MASK = (causal_mask(3).double(),)


@pytest.mark.parametrize("brick, inputs, mask", [
    (lambda: Embedding(5, 4), (2, 3), ()), (lambda: Linear(3, 4, bias=True), (2, 3, 3), ()), (lambda: LayerNorm(6), (2, 3, 6), ()),
    (lambda: Positions("any"), (2, 3, 4), ()),
    (lambda: Attention(Config(**TINY)), (2, 3, 4), MASK), (lambda: FeedForward(Config(**TINY)), (2, 3, 4), ()),
    (lambda: Block(Config(**TINY)), (2, 3, 4), MASK),
    (lambda: Block(Config(**TINY, norm_first=True, bias=True)), (2, 3, 4), MASK),
    (lambda: TinyLLM(Config(**TINY)), (2, 3), ()), (lambda: TinyLLM(Config(**TINY, norm_first=True, bias=True)), (2, 3), ())],
    ids=["Embedding", "Linear", "LayerNorm", "Positions", "Attention", "FeedForward", "Block", "Block, norm first",
         "TinyLLM", "TinyLLM, norm first"])
def test_gradients_are_the_derivatives(brick, inputs, mask):
    """By gradcheck: each derivative against a difference quotient."""
    seed_torch(0)
    brick = shake(brick().double())
    names = [name for name, _ in brick.named_parameters()]
    takes_ids = hasattr(brick, "embedding") or isinstance(brick, Embedding)
    x = torch.randint(5, inputs) if takes_ids else torch.randn(inputs, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(
        lambda x, *p: torch.func.functional_call(brick, dict(zip(names, p)), (x, *mask)), (x, *brick.parameters()))


# ------------------------------------------------------------------ the loss

def cross_entropy_by_hand(model, ids):
    """-log(e^l / (sum of all e^l)), l the logit of the symbol that came, with Python's own arithmetic."""
    rows = model(ids[None, :-1].long())[0].tolist()
    losses = [math.log(math.fsum(math.exp(logit) for logit in row)) - row[symbol]
              for row, symbol in zip(rows, ids[1:].tolist())]
    return math.fsum(losses) / len(losses)


@given(length=st.integers(2, 9), seed=seeds)
@settings(max_examples=20)
def test_the_loss_is_cross_entropy_by_hand(length, seed):
    model = random_model(seed, d_model=8, n_heads=2, d_ff=8, context=8)
    ids = torch.randint(256, (length,), dtype=torch.uint8)
    expected = cross_entropy_by_hand(model, ids)
    assert evaluate(model, ids) == pytest.approx(expected, rel=1e-5)
    if length == 9:  # the one window this text has: every row of the batch is it
        assert train(model, ids, steps=1, batch=3)[0] == pytest.approx(expected, rel=1e-5)
