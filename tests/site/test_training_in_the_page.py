"""Training in the page against PyTorch: the loss, every gradient, AdamW step by step, and what a reader does with it."""

import pytest
import torch
import torch.nn.functional as F

from test_playground import FRAMES, model, opened, tab, tool, type_text  # noqa: F401
from test_site import SITE, browser, server  # noqa: F401 (fixtures)
from tinyllm import Config, TinyLLM, encode, load_text

pytestmark = pytest.mark.site

SCRIPT = SITE / "assets/playground/train.js"
TEXTS = {"the manual": load_text()[5000:6000], "Chinese": "语言模型只做一件事：读一段文字，猜下一个符号。" * 8, "one letter": "a" * 300}
MODELS = {"trained": {}, "from nothing": {"context": 128}, "pre-norm, biases": {"norm_first": True, "bias": True, "d_model": 16, "n_heads": 2, "d_ff": 24, "n_layers": 3, "context": 40}}
IN_THE_PAGE = """([windows, steps]) => {
  const model = new TinyLLM(playground.state.model.config, Object.fromEntries(Object.entries(playground.state.model.weights).map(([name, x]) => [name, x.map(a => a)])));
  const grads = zeros(model.weights), loss = windows.reduce((sum, ids) => sum + lossAndGradients(model, ids.slice(0, -1), ids.slice(1), grads, 1 / windows.length), 0);
  const optimizer = new AdamW(model.weights), losses = Array.from({ length: steps }, () => trainStep(model, optimizer, windows).loss);
  return [loss, losses, Object.fromEntries(Object.entries(grads).map(([name, g]) => [name, [...g.data]]))] }"""


def put_on_the_map(tab, own, tmp_path):  # noqa: F811
    own.save(tmp_path / "own.safetensors")
    tool(tab, "Open a checkpoint")
    tab.locator("#pg-file").set_input_files(tmp_path / "own.safetensors")
    tab.wait_for_function("playground.state.model !== playground.shipped")


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("start", MODELS)
def test_loss_gradients_and_adamw_are_pytorchs(start, text, tab, model, tmp_path):  # noqa: F811
    torch.manual_seed(0)
    own = TinyLLM(Config(**MODELS[start])) if MODELS[start] else TinyLLM.pretrained()
    put_on_the_map(tab, own, tmp_path)
    tab.add_script_tag(path=SCRIPT)
    windows = torch.stack([encode(TEXTS[text])[n * 40 : n * 40 + 33] for n in range(3)])
    steps = 100 if text == "the manual" and start == "trained" else 10
    loss, losses, grads = tab.evaluate(IN_THE_PAGE, [windows.tolist(), steps])

    optimizer, curve = torch.optim.AdamW(own.parameters(), lr=0.003, betas=(0.9, 0.99), weight_decay=0.1), []
    for step in range(steps):
        right = F.cross_entropy(own(windows[:, :-1]).flatten(0, 1), windows[:, 1:].flatten())
        optimizer.zero_grad()
        right.backward()
        if step == 0:
            assert abs(loss - right.item()) <= 1e-4 * max(1, right.item())
            largest = max(p.grad.abs().max().item() for p in own.parameters())
            for name, p in own.named_parameters():
                difference = (torch.tensor(grads[name]).reshape(p.shape) - p.grad).abs().max().item()
                # a key's bias has no gradient at all: what is left there is rounding
                assert difference <= 1e-4 * max(p.grad.abs().max().item(), 1e-3 * largest), name
        optimizer.step()
        curve.append(right.item())
    assert max(abs(a - b) for a, b in zip(curve, losses, strict=True)) <= 1e-3


def train(tab, text, steps):  # noqa: F811
    box = tool(tab, "Train it on your text")
    box.get_by_label("a text to train on").fill(text)
    box.get_by_role("button", name="Train", exact=True).click()
    tab.wait_for_function(f"playground.training.latest?.step >= {steps}")
    return box


def test_trained_weights_are_on_the_map_and_can_be_taken_along(tab, tmp_path):  # noqa: F811
    type_text(tab, "The ")
    before = tab.evaluate("[...playground.now.logits.data]")
    box = train(tab, load_text()[:9000], 5)
    box.get_by_role("button", name="Pause").click()
    tab.wait_for_timeout(300)
    step = tab.evaluate("playground.training.latest.step")
    tab.wait_for_timeout(500)
    assert tab.evaluate("playground.training.latest.step") == step, "it goes on after Pause"
    box.get_by_role("button", name="One step").click()
    tab.wait_for_function(f"playground.training.latest.step == {step + 1}")
    tab.evaluate(FRAMES)
    assert f"trained here, step {step + 1}" in tab.locator(".pg-now").inner_text() and "held-out text" in box.locator(".pg-reading").inner_text()
    after = tab.evaluate("[...playground.now.logits.data]")
    assert max(abs(a - b) for a, b in zip(before, after)) > 1e-3
    with tab.expect_download() as download:
        box.get_by_role("button", name="Download the weights").click()
    download.value.save_as(tmp_path / "here.safetensors")
    with torch.no_grad():
        logits = TinyLLM.load(tmp_path / "here.safetensors")(encode("The ")[None])[0]
    assert (torch.tensor(after).reshape(logits.shape) - logits).abs().max() <= 1e-4
    box.get_by_label("show each weight's gradient in its place").check()
    tab.evaluate(FRAMES)
    shown, gradient = tab.evaluate("""() => [playground.map.cell("head.weight", 3, 101), playground.training.latest.grads["head.weight"].row(101)[3]]""")
    assert shown == gradient != 0
    box.get_by_role("button", name="Back to the shipped weights").click()
    tab.evaluate(FRAMES)
    assert tab.evaluate("[...playground.now.logits.data]") == before and "trained here" not in tab.locator(".pg-now").inner_text()


def test_from_nothing_on_chinese_the_loss_falls(tab):  # noqa: F811
    box = tool(tab, "Train it on your text")
    box.get_by_label("weights to begin with").select_option("nothing")
    box.get_by_role("button", name="一页中文").click()
    box.get_by_label("learning rate").select_option("0.01")
    box.get_by_role("button", name="Train", exact=True).click()
    tab.wait_for_function("playground.training.latest?.step >= 20 && playground.training.looks.length > 1")
    looks = tab.evaluate("playground.training.looks")
    assert looks[0][0] == 0 and looks[0][1] > 5 and looks[-1][1] < looks[0][1] - 0.5


def test_it_goes_on_in_a_tab_out_of_sight(tab, browser):  # noqa: F811
    train(tab, load_text()[:9000], 1)
    other = browser.new_page()
    other.bring_to_front()
    step = tab.evaluate("playground.training.latest.step")
    tab.wait_for_function(f"playground.training.latest.step > {step + 5}", polling=200)
    other.close()


@pytest.mark.parametrize(("text", "says"), [("", "Paste a text first"), ("too short", "at least 76 are needed"), ("a" * 500, "repeats one symbol")])
def test_what_cannot_be_trained_on_is_one_line(text, says, tab):  # noqa: F811
    box = tool(tab, "Train it on your text")
    box.get_by_label("a text to train on").fill(text)
    box.get_by_role("button", name="Train", exact=True).click()
    assert says in box.locator(".pg-reading").inner_text() and tab.evaluate("playground.training.latest === null")


def test_chapter_9_has_it_and_nothing_leaves_the_page(server, browser):  # noqa: F811
    tab = opened(browser, server + "09-training/")
    area = tab.locator(".tinyllm-playground")
    area.scroll_into_view_if_needed()
    asked = []
    tab.on("request", lambda request: asked.append(request.url))
    train(tab, load_text()[:9000], 3)
    assert all(url.startswith(server) for url in asked) and not any("?" in url for url in asked), asked
    assert tab.problems == []
    tab.close()
