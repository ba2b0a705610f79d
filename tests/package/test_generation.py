"""Drawing symbols: the distribution, the loop, the window."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tinyllm import Config, TinyLLM, decode, distribution, encode, generate, intervene, next_logits

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
        assert step.probabilities.equal(expected)
        assert type(step.id) is int and step.probabilities[step.id] > 0
        ids = torch.cat([ids, torch.tensor([step.id])])
    assert decode(ids) == "The " + text(steps)


def test_draws_of_the_loop_have_the_models_frequencies():
    torch.manual_seed(0)
    small = TinyLLM(Config(d_model=16, n_heads=2, d_ff=16, n_layers=1, context=8))
    p = distribution(next_logits(small, encode("the ")), 0.5, top_k=5)
    counts = torch.zeros(256)
    for seed in range(1500):
        counts[next(generate(small, "the ", 1, 0.5, 5, seed)).id] += 1
    kept = p > 0
    chi_square = ((counts - 1500 * p)[kept] ** 2 / (1500 * p)[kept]).sum()
    assert counts[~kept].sum() == 0 and chi_square < 18.5  # 4 degrees of freedom, 99.9 %
    assert p.max() > 1.5 * p[kept].min()


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


def test_a_model_that_is_used_between_two_steps_writes_the_same_text(model):
    used = []
    for step in generate(model, "The ", tokens=20):
        used.append(step.id)
        next_logits(model, encode("something else"))
        list(generate(model, "and another text", tokens=2))
    assert used == [step.id for step in generate(model, "The ", tokens=20)]


def test_two_texts_written_in_turns_are_the_ones_written_alone(model):
    pairs = zip(generate(model, "The ", tokens=10, seed=1), generate(model, "and another text", tokens=10, seed=2))
    one, other = zip(*[(first.text, second.text) for first, second in pairs])
    assert "".join(one) == text(generate(model, "The ", tokens=10, seed=1))
    assert "".join(other) == text(generate(model, "and another text", tokens=10, seed=2))


def test_the_global_random_numbers_are_neither_used_nor_moved(model):
    torch.manual_seed(1)
    state = torch.get_rng_state()
    one = text(generate(model, "The ", tokens=10))
    assert torch.get_rng_state().equal(state)
    torch.manual_seed(2)
    assert text(generate(model, "The ", tokens=10)) == one


def test_no_gradient_is_recorded_and_gradients_stay_allowed_outside(model):
    for step in generate(model, "The ", tokens=2):
        assert not step.probabilities.requires_grad and torch.is_grad_enabled()


# ------------------------------------------------------------------ a model that somebody changes

def turned(x):
    """As RoPE does: what happens to a row depends on where it stands."""
    return x * torch.linspace(1, 2, x.shape[-2])[:, None]


def steps_say_what_the_model_says(model, steps, prompt, temperature=0.8):
    """Each step's probabilities are those that the model, as it is at that moment, gives to the whole text."""
    ids = encode(prompt)
    for step in steps:
        expected = distribution(model(ids[None, -model.config.context :])[0, -1].detach(), temperature)
        torch.testing.assert_close(step.probabilities, expected)
        ids = torch.cat([ids, torch.tensor([step.id])])


@pytest.mark.parametrize("changes", [
    {"blocks.0.attention.mix": lambda mix: mix.index_fill(1, torch.tensor([2]), 0.0),
     "blocks.1.attention.v": lambda v: 0.5 * v},
    {"blocks.0.attention.q": turned, "blocks.1.attention.k": turned},
    {"blocks.0.attention.weights": lambda weights: weights.tril(-1)}, {"mask": torch.zeros_like}],
    ids=["a head off", "positions turned", "no look at oneself", "mask open"])
@pytest.mark.parametrize("prompt", ["The ", "x" * 125], ids=["short", "over the window's end"])
def test_an_intervention_acts_on_a_text_as_on_a_single_step(model, changes, prompt):
    plain = [step.probabilities for step in generate(model, prompt, tokens=8)]
    with intervene(model, changes):
        steps_say_what_the_model_says(model, steps := list(generate(model, prompt, tokens=8)), prompt)
    assert not all(step.probabilities.equal(p) for step, p in zip(steps, plain))  # it did act
    assert [step.probabilities for step in generate(model, prompt, tokens=8)][0].equal(plain[0])  # and no longer


@pytest.mark.parametrize("kind", ["pre-hook", "hook", "global pre-hook", "global hook"])
def test_a_hook_of_any_kind_acts_on_a_text_as_on_a_single_step(model, kind):
    part = model.blocks[0].attention.mix

    def before(module, inputs):
        return (turned(inputs[0]),) if module is part else None

    def after(module, inputs, output):
        return turned(output) if module is part else None

    plain = [step.probabilities for step in generate(model, "The ", tokens=8)]
    hook = {"pre-hook": lambda: part.register_forward_pre_hook(before),
            "hook": lambda: part.register_forward_hook(after),
            "global pre-hook": lambda: torch.nn.modules.module.register_module_forward_pre_hook(before),
            "global hook": lambda: torch.nn.modules.module.register_module_forward_hook(after)}[kind]()
    try:
        steps_say_what_the_model_says(model, steps := list(generate(model, "The ", tokens=8)), "The ")
    finally:
        hook.remove()
    assert not all(step.probabilities.equal(p) for step, p in zip(steps, plain))


def test_what_changes_between_two_steps_counts_from_the_next_one():
    """Weights, a hook and a part of the model: nothing of the past is kept."""
    torch.manual_seed(0)
    model = TinyLLM(Config(d_model=16, n_heads=2, d_ff=16, context=8))

    def change(count):
        if count == 1:
            with torch.no_grad():
                model.blocks[0].attention.key.weight.mul_(2)
        if count == 2:
            model.blocks[1].attention.v.register_forward_hook(lambda part, inputs, output: turned(output))
        if count == 3:
            model.blocks[0].ffn = torch.nn.Identity()

    ids, plain = encode("abc"), [step.probabilities for step in generate(model, "abc", tokens=6)]
    for count, step in enumerate(generate(model, "abc", tokens=6)):
        expected = distribution(next_logits(model, ids), 0.8)
        torch.testing.assert_close(step.probabilities, expected)
        assert step.probabilities.equal(plain[count]) == (count < 2)
        ids = torch.cat([ids, torch.tensor([step.id])])
        change(count)


def test_a_character_of_several_bytes_appears_when_it_is_complete():
    wanted = "aé🙂".encode() + "é".encode()[:1]

    class Says(TinyLLM):  # a model that always says the next byte of a given text
        def forward(self, ids):
            return torch.nn.functional.one_hot(torch.tensor([[wanted[ids.shape[1] - 1]]]), 256).float()

    assert [step.text for step in generate(Says(), "?", tokens=8, temperature=0)] == [
        "a", "", "é", "", "", "", "🙂", "\N{REPLACEMENT CHARACTER}"]


# ------------------------------------------------------------------ any prompt and setting

@pytest.mark.parametrize("options, says", [
    (dict(prompt=""), "empty"), (dict(tokens=-1), "-1"), (dict(temperature=-0.1), "-0.1"),
    (dict(temperature=float("nan")), "nan"), (dict(temperature=float("inf")), "inf"), (dict(top_k=0), "0"),
    (dict(top_k=-5), "-5"), (dict(prompt="\ud800"), "surrogates")])
def test_any_setting_out_of_range_is_named(model, options, says):
    with pytest.raises(ValueError, match=says):
        generate(model, **{"prompt": "a", **options})  # at the call, not at the first step


@pytest.mark.parametrize("options", [
    dict(prompt=None), dict(prompt=5), dict(prompt=b"a"), dict(tokens=1.5), dict(tokens="5"), dict(temperature="hot"),
    dict(top_k=2.5), dict(top_k="5")])
def test_any_setting_of_another_type_is_a_type_error(model, options):
    with pytest.raises((TypeError, AttributeError)):
        list(generate(model, **{"prompt": "a", **options}))


def test_a_model_of_more_symbols_than_bytes_writes_no_text_and_says_so():
    model = TinyLLM(Config(vocab_size=257, d_model=16, n_heads=2, d_ff=16, n_layers=1, context=8))
    with pytest.raises(ValueError, match="only a model of bytes can write text") as error:
        generate(model, "a")
    assert "\n" not in str(error.value)
    assert next_logits(model, encode("a")).shape == (257,)  # all else works
    assert len(list(generate(TinyLLM(Config(vocab_size=128, d_model=16, n_heads=2, d_ff=16, context=8)), "a", 5))) == 5


def test_a_step_comes_before_the_next_one_is_computed(model):
    calls = []
    hook = model.register_forward_hook(lambda *_: calls.append(1))
    steps = generate(model, "The ", tokens=50)
    for count in range(1, 4):
        next(steps)
        assert len(calls) <= count + 1  # the one more tries the prompt, at the call
    hook.remove()


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
