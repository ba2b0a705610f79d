"""Drawing symbols: the distribution, the loop, the window."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tinyllm import Config, TinyLLM, decode, distribution, encode, generate, intervene, next_logits, zero_head

finite = st.floats(-50, 50, width=32)
logit_lists = st.lists(finite, min_size=1, max_size=40)


def text(steps):
    return "".join(step.text for step in steps)


@pytest.fixture(scope="module")
def model():
    return TinyLLM.pretrained()


# ------------------------------------------------------------------ the distribution

@given(logit_lists, st.floats(0.05, 20))
def test_distribution_is_softmax_of_logits_over_temperature(logits, temperature):
    logits = torch.tensor(logits)
    expected = (logits.double() / temperature).softmax(0).float()
    torch.testing.assert_close(distribution(logits, temperature), expected, rtol=1e-3, atol=1e-6)


@given(logit_lists, st.integers(1, 50), st.floats(0, 5))
def test_top_k_is_never_outside_the_k_largest(logits, k, temperature):
    logits = torch.tensor(logits)
    p = distribution(logits, temperature, k)
    assert (p > 0).sum() <= min(k, len(logits)) and p.sum().item() == pytest.approx(1, abs=1e-4)
    assert logits[p > 0].min() >= logits.sort(descending=True).values[: min(k, len(logits))].min()


@given(st.lists(st.integers(-400, 400), min_size=1, max_size=40, unique=True))
def test_temperature_to_zero_becomes_the_largest(eighths):
    logits = torch.tensor(eighths) / 8
    for temperature in (0, 1e-30):
        assert distribution(logits, temperature).argmax() == logits.argmax()
    assert distribution(logits, 0).max() == 1


def test_draws_follow_the_stated_probabilities():
    """Chi-square over 20,000 draws from a fixed seed."""
    p = distribution(torch.linspace(0, 2, 10), 0.7)
    counts = torch.bincount(torch.multinomial(p, 20_000, True, generator=torch.Generator().manual_seed(0)), minlength=10)
    assert ((counts - 20_000 * p) ** 2 / (20_000 * p)).sum() < 27.9  # 9 degrees of freedom, 99.9 %


# ------------------------------------------------------------------ the loop

def test_each_step_says_what_it_was_drawn_from(model):
    steps = list(generate(model, "The ", tokens=5, temperature=0.8, top_k=12, seed=3))
    ids = encode("The ")
    for step in steps:
        expected = distribution(next_logits(model, ids), 0.8, 12)
        torch.testing.assert_close(step.probabilities, expected)  # ours come out of a cache
        assert step.probabilities[step.id] > 0
        ids = torch.cat([ids, torch.tensor([step.id])])
    assert decode(ids) == "The " + text(steps)


def test_draws_of_the_loop_have_the_models_frequencies(model):
    p = distribution(next_logits(model, encode("the ")), 1.0, top_k=5)
    counts = torch.zeros(256)
    for seed in range(1500):
        counts[next(generate(model, "the ", 1, 1.0, 5, seed)).id] += 1
    kept = p > 0
    chi_square = ((counts - 1500 * p)[kept] ** 2 / (1500 * p)[kept]).sum()
    assert counts[~kept].sum() == 0 and chi_square < 18.5  # 4 degrees of freedom, 99.9 %


def test_greedy_is_the_likeliest_symbol_each_time(model):
    ids = encode("In ")
    for step in generate(model, "In ", tokens=20, temperature=0):
        assert step.id == next_logits(model, ids).argmax()
        ids = torch.cat([ids, torch.tensor([step.id])])


def test_seeds(model):
    samples = [text(generate(model, "The ", tokens=30, seed=seed)) for seed in (0, 0, 1)]
    assert samples[0] == samples[1] != samples[2]


def test_only_the_last_window_is_read(model):
    context = model.config.context
    end = "x" * context
    assert next_logits(model, encode("something else " + end)).equal(next_logits(model, encode(end)))
    assert len(text(generate(model, "long " * context, tokens=3)).encode()) == 3


@pytest.mark.parametrize("sizes", [{}, dict(norm_first=True, bias=True, n_layers=3)])
@pytest.mark.parametrize("start", [1, 5, 8, 9])
def test_the_cache_changes_nothing(sizes, start):
    """From the first symbols until the window of 8 has slid for some time."""
    torch.manual_seed(0)
    model = TinyLLM(Config(d_model=16, context=8, **sizes))
    ids, past = torch.randint(256, (14,)), {}
    for end in range(start, len(ids) + 1):
        cached = next_logits(model, ids[:end], past)
        torch.testing.assert_close(cached, next_logits(model, ids[:end]), rtol=1e-4, atol=1e-5)
    assert not any(m._forward_hooks for m in model.modules())  # the model is left as it was


def test_the_cache_saves_computing_the_past_again(model):
    ids, past, rows = encode("The value of"), {}, []
    hook = model.blocks[0].ffn.register_forward_pre_hook(lambda _, inputs: rows.append(inputs[0].shape[1]))
    for end in range(4, len(ids) + 1):
        next_logits(model, ids[:end], past)
    list(generate(model, "The ", tokens=3))
    list(generate(model, "a" * (model.config.context - 1), tokens=3))  # until the window is full, and one symbol on
    hook.remove()
    assert rows == [4] + 8 * [1] + [4, 1, 1] + [model.config.context - 1, 1, model.config.context]


def test_a_model_that_is_used_between_two_steps_writes_the_same_text(model):
    used = []
    for step in generate(model, "The ", tokens=20):
        used.append(step.id)
        next_logits(model, encode("something else"))
        list(generate(model, "and another text", tokens=2))
    assert used == [step.id for step in generate(model, "The ", tokens=20)]


def turned(x):
    """As RoPE does: what happens to a row depends on where it stands."""
    return x * torch.linspace(1, 2, x.shape[2])[:, None]


@pytest.mark.parametrize("changes", [
    {"blocks.0.attention.mix": zero_head(2), "blocks.1.attention.v": lambda v: 0.5 * v},
    {"blocks.0.attention.q": turned, "blocks.1.attention.k": turned},
    {"blocks.0.attention.weights": lambda weights: weights.tril(-1) + weights.new_zeros(weights.shape[-2:])}], ids=str)
def test_an_intervention_acts_on_a_text_as_on_a_single_step(model, changes):
    ids, past = encode("The "), {}
    next_logits(model, ids[:-1], past)  # before it: this past is another model's
    with intervene(model, changes):
        torch.testing.assert_close(next_logits(model, ids, past), next_logits(model, ids))
        for step in generate(model, "The ", tokens=8):
            torch.testing.assert_close(step.probabilities, distribution(next_logits(model, ids), 0.8))
            ids = torch.cat([ids, torch.tensor([step.id])])
    torch.testing.assert_close(next_logits(model, ids, past), next_logits(model, ids))  # and after it


def test_the_cache_is_for_no_other_text(model):
    past = {}
    for text in ("The value", "The value", "The value of", "The", "Thx", "Thy ", "The ", "T", "a", "ab"):
        ids = encode(text)
        torch.testing.assert_close(next_logits(model, ids, past), next_logits(model, ids), rtol=1e-4, atol=1e-4)


def test_a_character_of_several_bytes_appears_when_it_is_complete():
    wanted = iter("aé🙂".encode() + "é".encode()[:1])

    class Says(TinyLLM):  # a model that always says the next byte of a given text
        def forward(self, ids):
            return torch.nn.functional.one_hot(torch.tensor([[next(wanted)]]), 256).float()

    assert [step.text for step in generate(Says(), "?", tokens=8, temperature=0)] == [
        "a", "", "é", "", "", "", "🙂", "\N{REPLACEMENT CHARACTER}"]


# ------------------------------------------------------------------ any prompt and setting

@pytest.mark.parametrize("options, says", [
    (dict(prompt=""), "empty"), (dict(tokens=-1), "-1"), (dict(temperature=-0.1), "-0.1"),
    (dict(temperature=float("nan")), "nan"), (dict(temperature=float("inf")), "inf"), (dict(top_k=0), "0"),
    (dict(top_k=-5), "-5"), (dict(prompt="\ud800"), "surrogates")])
def test_any_setting_out_of_range_is_named(model, options, says):
    with pytest.raises(ValueError, match=says):
        list(generate(model, **{"prompt": "a", **options}))


@pytest.mark.parametrize("options", [
    dict(prompt=None), dict(prompt=5), dict(prompt=b"a"), dict(tokens=1.5), dict(tokens="5"), dict(temperature="hot"),
    dict(top_k=2.5), dict(top_k="5")])
def test_any_setting_of_another_type_is_a_type_error(model, options):
    with pytest.raises(TypeError):
        list(generate(model, **{"prompt": "a", **options}))


@pytest.mark.parametrize("options, says", [
    (dict(temperature=-1), "-1"), (dict(temperature=float("nan")), "nan"), (dict(temperature=float("inf")), "inf"),
    (dict(top_k=0), "0"), (dict(top_k=-5), "-5")])
def test_any_setting_out_of_range_has_no_distribution(options, says):
    with pytest.raises(ValueError, match=says):
        distribution(torch.zeros(9), **options)


@pytest.mark.parametrize("prompt", ["é中🙂", "\udcff\udcfe", "\0", "\r\n", " ", "a" * 999], ids=ascii)
def test_any_prompt_is_continued(model, prompt):
    assert len(list(generate(model, prompt, tokens=2))) == 2


@pytest.mark.parametrize("options", [dict(tokens=0), dict(temperature=0), dict(temperature=1e-300), dict(temperature=1e300),
                                     dict(top_k=1), dict(top_k=1000), dict(seed=-1), dict(seed=2**63)])
def test_any_setting_in_range_works(model, options):
    steps = list(generate(model, **{"prompt": "a", "tokens": 2, **options}))
    assert len(steps) == options.get("tokens", 2)


@pytest.mark.parametrize("ids", [torch.zeros(3), torch.zeros(2, 3, dtype=torch.long), torch.tensor([256]), torch.tensor([-1])])
def test_any_ids_that_are_none_have_no_next_symbol(model, ids):
    with pytest.raises(ValueError):
        next_logits(model, ids)
