"""One step of generation and its defaults, against the model's own logits: what mutants.py found untested."""

import pytest
import torch

from tinyllm import Config, TinyLLM, distribution, encode, generate, next_logits, next_symbols, symbol


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(0)
    return TinyLLM(Config(d_model=16, n_heads=2, d_ff=16, n_layers=1, context=8))


@pytest.mark.parametrize("prompt", ["a", "ab", "abcdefgh", "what came long before abcdefgh"])
def test_the_next_symbol_is_predicted_at_the_last_position_of_the_window(model, prompt):
    logits = next_logits(model, encode(prompt))
    assert logits.equal(model(encode(prompt[-8:])[None])[0, -1]) and not logits.requires_grad


def test_the_defaults_are_the_ones_that_are_documented(model):
    logits = next_logits(model, encode("a"))
    torch.testing.assert_close(distribution(logits), logits.softmax(0))
    steps = generate(model, "a", tokens=50, temperature=0.8, top_k=None, seed=0)
    assert [step.id for step in generate(model, "a")] == [step.id for step in steps]


def test_only_the_likeliest_is_greedy(model):
    drawn, greedy = (list(generate(model, "a", tokens=9, **settings)) for settings in (dict(top_k=1), dict(temperature=0)))
    assert [step.id for step in drawn] == [step.id for step in greedy]


def test_the_smallest_temperature_does_not_overflow():
    assert distribution(torch.tensor([50.0, 49.0, -50.0]), 5e-324).tolist() == [1, 0, 0]


@pytest.mark.parametrize("top", [1, 2, 10, 256, 999])
def test_next_symbols_shows_a_part_of_the_whole_distribution(model, top):
    """The first of one has the probability that it has among all: nothing is rescaled to those shown."""
    p = next_logits(model, encode("ab")).softmax(0)
    shown = next_symbols(model, "ab", top=top)
    assert len(shown) == min(top, 256) and shown[0][0] == symbol(p.argmax().item())
    assert [probability for _, probability in shown] == pytest.approx(p.sort(descending=True).values[:top].tolist())
    assert len(next_symbols(model, "ab")) == 10


def test_next_symbols_of_a_larger_vocabulary_have_labels():
    torch.manual_seed(0)
    model = TinyLLM(Config(vocab_size=300, d_model=16, n_heads=2, d_ff=16, n_layers=1, context=8))
    names = [name for name, _ in next_symbols(model, "ab", top=300)]
    assert len(set(names)) == 300 and {"#256", "#299", "a"} <= set(names)
