"""The record of the shipped weights' training is about these weights, this recipe and this code."""

import hashlib
import json

import pytest
from safetensors.torch import load_file

from tinyllm import TinyLLM, encode, evaluate, load_text, split
from tools.measure import weights

RECORD = json.loads(weights.RECORD.read_text(encoding="utf-8"))
AGAIN = "run `make weights`"


def test_the_record_is_of_the_shipped_weights_and_the_present_recipe():
    assert RECORD["weights"] == hashlib.sha256(weights.SHIPPED.read_bytes()).hexdigest(), AGAIN
    assert (RECORD["steps"], RECORD["batch"]) == (weights.STEPS, weights.BATCH), AGAIN
    assert RECORD["context"] == TinyLLM().config.context, AGAIN
    assert [row["step"] for row in RECORD["looks"]] == [*weights.LOOKS, weights.STEPS], AGAIN
    assert len(RECORD["losses"]) == weights.STEPS // weights.TEN, AGAIN


def test_the_record_ends_where_the_shipped_weights_are():
    ids = encode(load_text())
    if hashlib.sha256(bytes(ids.tolist())).hexdigest() != RECORD["text"]:
        pytest.skip("the record is of another Python's manual")
    model, last = TinyLLM.pretrained(), RECORD["looks"][-1]
    assert evaluate(model, split(ids)[1]) == pytest.approx(last["validation"], abs=1e-3), AGAIN
    for name, (before, hoped) in RECORD["watched"].items():
        assert weights.chance(model, before, hoped) == pytest.approx(last["chances"][name], abs=1e-3), AGAIN


def test_a_short_run_is_looked_at_before_it_on_the_way_and_at_its_end(tmp_path):
    ids = encode("the cat sat on the mat. " * 100)
    model, record, moments = weights.run(ids, steps=13)
    assert [row["step"] for row in record["looks"]] == [0, 1, 2, 4, 8, 13]
    assert len(moments) == 5 and len(record["losses"]) == 2                # steps 1 to 10, and 11 to 13
    assert record["looks"][-1]["validation"] == round(evaluate(model, split(ids)[1]), 4)
    assert record["looks"][0]["validation"] > record["looks"][-1]["validation"]
    assert all(row["sample"].startswith("The ") for row in record["looks"])

    record["weights"] = "of another file"
    path = tmp_path / "moments.safetensors"
    path.write_bytes(weights.moments_file(moments, record))
    stacked = load_file(path)
    name, first = next(iter(moments[0].items()))
    assert stacked[name].shape == (5, *first.shape) and (stacked[name][0] == first).all()
