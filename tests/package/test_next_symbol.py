"""One step of generation and its defaults, against the model's own logits: what mutants.py found untested."""

import pytest
import torch

from tinyllm import Config, TinyLLM, distribution, encode, generate, next_logits


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
