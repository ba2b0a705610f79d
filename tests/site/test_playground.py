"""The playground of the built site: its model against PyTorch, and its controls as a reader uses them.

Like test_site.py it looks at the built book in site/, or in SITE_DIR.
"""

import hashlib
import json

import pytest
import safetensors
import torch

from test_site import KB, ROOT, SITE, browser, server  # noqa: F401 (fixtures)
from tinyllm import TinyLLM, encode, generate, intervene, symbol, trace

pytestmark = pytest.mark.site

PROMPTS = {
    "ASCII": "It is not a list",
    "Chinese": "漢字 是 不是",
    "emoji": "if 🙂: a 👩‍💻 returns é",
    "one symbol": "T",
    "longer than the context": "The quick brown fox, which is not in the manual, jumps over “lazy” dogs 3 times\nin a row; "
                               "then it sits down, and asks itself whether a dog is a mutable object.",
}
LAYERS, HEADS = range(2), range(4)
FRAMES = "() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"


@pytest.fixture(scope="module")
def model():
    return TinyLLM.pretrained()


def opened(browser, address, **options):  # noqa: F811
    tab = browser.new_page(viewport=options.pop("viewport", {"width": 1440, "height": 900}), **options)
    tab.problems = []
    tab.on("console", lambda message: message.type in ("error", "warning") and tab.problems.append(message.text))
    tab.on("pageerror", lambda error: tab.problems.append(str(error)))
    tab.goto(address)
    tab.locator(".tinyllm-playground[data-ready]").first.wait_for(timeout=20_000)
    return tab


@pytest.fixture
def tab(server, browser):  # noqa: F811
    tab = opened(browser, server + "playground/")
    yield tab
    assert tab.problems == []
    tab.close()


def panel(tab, name):
    return tab.locator(f'.tinyllm-playground[data-panel="{name}"]')


def type_text(tab, text):
    tab.get_by_label("Type a sentence").fill(text)
    tab.evaluate(FRAMES)


def shown(tab, expression):
    """A tensor of the page, as it is drawn now."""
    tab.evaluate(FRAMES)
    shape, numbers = tab.evaluate(f"(() => {{ const x = {expression}; return [x.shape, [...x.data]] }})()")
    return torch.tensor(numbers, dtype=torch.float32).reshape(shape)


def window(model, text):
    return encode(text)[None, -model.config.context:]


def click(name, layer=None):
    def act(tab):
        rows = panel(tab, "change").locator(".pg-row")
        row = rows.nth(layer) if layer is not None else rows.filter(has_text="everywhere")
        row.get_by_role("button", name=name, exact=True).click()
    return act


def slide(name, value):
    return lambda tab: tab.get_by_label(name, exact=True).fill(str(value))


def set_weight(tab, layer=0, head=1, value=0.9):
    area = panel(tab, "change")
    for group, place in (("layer", layer), ("head", head)):
        area.get_by_role("group", name=group, exact=True).get_by_role("button", name=str(place), exact=True).click()
    tab.evaluate(FRAMES)
    area.get_by_label("the symbol that looks", exact=True).select_option(index=tab.evaluate("playground.now.T") - 1)
    area.get_by_label("the symbol that is looked at", exact=True).select_option(index=0)
    area.get_by_label("attention weight", exact=True).fill(str(value))


def first_weight(weights):
    weights = weights.clone()
    weights[0, 1, -1, 0] = 0.9
    return weights


def zero_head(head):
    return lambda mix: mix.index_fill(1, torch.tensor([head]), 0.0)


def no_positions(model):
    waves = model.positions(torch.zeros(model.config.context, model.config.d_model))
    return lambda x: x - waves[: x.shape[1]]


# What the reader does, and the same in Python.
CHANGES = {
    "nothing": (lambda tab: None, lambda model: {}),
    **{f"head {layer}.{head}": (click(f"head {head}", layer), lambda model, layer=layer, head=head: {f"blocks.{layer}.attention.mix": zero_head(head)})
       for layer in LAYERS for head in HEADS},
    **{f"FFN {layer}": (click("FFN", layer), lambda model, layer=layer: {f"blocks.{layer}.ffn": torch.zeros_like}) for layer in LAYERS},
    "positions": (click("positions"), lambda model: {"positions": no_positions(model)}),
    "mask": (click("mask"), lambda model: {"mask": torch.zeros_like}),
    "scale 0": (slide("scale of the residual stream after layer 0", 0.5), lambda model: {"blocks.0.norm2": lambda x: x * 0.5}),
    "scale 1": (slide("scale of the residual stream after layer 1", 2), lambda model: {"blocks.1.norm2": lambda x: x * 2}),
    "a weight": (set_weight, lambda model: {"blocks.0.attention.weights": first_weight}),
}


@torch.no_grad()
def in_python(model, text, change):
    with intervene(model, CHANGES[change][1](model)), trace(model) as log:
        logits = model(window(model, text))[0]
    # trace's own hook on the weights comes last, so it has seen the change
    return logits, [log[f"blocks.{layer}.attention.weights"][0] for layer in LAYERS]


@pytest.mark.parametrize("prompt", PROMPTS)
def test_numbers_are_those_of_pytorch_with_and_without_each_change(prompt, tab, model):
    text = PROMPTS[prompt]
    type_text(tab, text)
    for change, (act, _) in CHANGES.items():
        act(tab)
        logits, weights = in_python(model, text, change)
        difference = (shown(tab, "playground.now.logits") - logits).abs().max().item()
        assert difference <= 1e-4, f"{change}: logits differ by {difference}"
        for layer in LAYERS:
            ours = shown(tab, f'playground.now.log["blocks.{layer}.attention.weights"]')
            assert torch.allclose(ours, weights[layer], rtol=0, atol=1e-4), f"{change}: weights of layer {layer}"
        if change != "nothing":
            assert (logits - in_python(model, text, "nothing")[0]).abs().max() > 1e-3 or len(encode(text)) == 1, f"{change} changes nothing"
            assert tab.evaluate("playground.now.changed")
            tab.get_by_role("button", name="Reset all changes").click()
    tab.evaluate(FRAMES)
    assert not tab.evaluate("playground.now.changed")


def test_every_tensor_has_the_name_and_the_numbers_of_trace(tab, model):
    text = PROMPTS["ASCII"]
    type_text(tab, text)
    with torch.no_grad(), trace(model) as log:
        model(window(model, text))
    for name, tensor in log.items():
        ours = shown(tab, f'playground.now.log["{name}"]')
        numbers = tensor if name == "mask" else tensor[0]       # one mask for the whole batch
        assert torch.allclose(ours, numbers, rtol=1e-4, atol=1e-4), name
    names = tab.evaluate("Object.keys(playground.now.log)")
    assert sorted(names) == sorted(log), "the page's log has other names than the package's"


def test_the_surprise_of_each_symbol_is_its_loss(tab, model):
    text = PROMPTS["ASCII"]
    type_text(tab, text)
    ids = encode(text)
    with torch.no_grad():
        loss = torch.nn.functional.cross_entropy(model(ids[None])[0, :-1], ids[1:], reduction="none")
    strip = tab.get_by_role("radiogroup", name="The symbols; choose one to see what the model expects after it").get_by_role("radio")
    assert strip.count() == len(ids)
    for t, nats in enumerate(loss.tolist(), 1):
        assert strip.nth(t).get_attribute("aria-label") == f"{t}: {symbol(ids[t].item())}, surprise {nats:.2f} nats"


def test_nothing_typed(tab):
    for text in ("", "a", ""):
        type_text(tab, text)
    assert tab.evaluate("playground.now.logits.shape") == [0, 256]
    assert "no prediction" in panel(tab, "sentence").locator("h3").inner_text()
    assert panel(tab, "generate").get_by_role("button", name="One symbol").is_disabled()
    for button in ("head 0", "FFN"):
        click(button, 0)(tab)
    tab.evaluate(FRAMES)


def top(model, text):
    with torch.no_grad():
        probabilities = model(window(model, text))[0, -1].softmax(-1)
    return symbol(probabilities.argmax().item()), probabilities.max().item()


def test_typing_predicts_at_every_key(tab, model):
    box = tab.get_by_label("Type a sentence")
    box.fill("")
    typed = ""
    for key in "the q":
        box.press(key if key != " " else "Space")
        typed += key
        tab.evaluate(FRAMES)
        row = panel(tab, "sentence").locator(".pg-bars li").first
        label, share = top(model, typed)
        assert row.locator("code").inner_text() == label
        assert row.locator(".pg-share").inner_text() == (f"{100 * share:.0f} %" if share >= 0.0995 else f"{100 * share:.1f} %")
    tab.wait_for_function("document.querySelector('.pg-hidden[aria-live]').textContent.startsWith('Most likely after q at 4: u')")


def test_a_position_is_chosen_by_pointer_and_by_keyboard(tab, model):
    type_text(tab, PROMPTS["ASCII"])
    area = panel(tab, "sentence")
    symbols = area.get_by_role("radio")
    symbols.nth(4).click()
    tab.evaluate(FRAMES)
    assert symbols.nth(4).get_attribute("aria-checked") == "true"
    assert area.locator(".pg-bars code").first.inner_text() == top(model, "It is")[0]
    tab.keyboard.press("ArrowLeft")
    tab.evaluate(FRAMES)
    assert symbols.nth(3).get_attribute("aria-checked") == "true" and tab.evaluate("document.activeElement.title").startswith("3:")
    assert area.locator(".pg-bars code").first.inner_text() == top(model, "It i")[0]
    symbols.nth(8).hover()
    tab.evaluate(FRAMES)
    assert area.locator(".pg-reading").inner_text().startswith("t at 8")
    tab.keyboard.press("End")
    assert tab.evaluate("playground.state.at") is None


def test_heads_are_enlarged_and_read(tab, model):
    text = PROMPTS["ASCII"]
    type_text(tab, text)
    weights = in_python(model, text, "nothing")[1]
    area = panel(tab, "attention")
    area.locator('[data-head="1.2"]').click()
    tab.evaluate(FRAMES)
    assert area.locator(".pg-title").inner_text() == "Layer 1, head 2"
    i, j, T = 9, 4, len(text)
    box = area.locator("canvas.pg-large").bounding_box()
    margin = 34
    cell = (box["width"] - margin) / T
    area.locator("canvas.pg-large").hover(position={"x": margin + (j + 0.5) * cell, "y": margin + (i + 0.5) * cell})
    tab.evaluate(FRAMES)
    assert f"weight {weights[1][2, i, j]:.4f}" in area.locator(".pg-reading").inner_text()
    area.locator("canvas.pg-large").focus()
    tab.keyboard.press("ArrowLeft")
    tab.evaluate(FRAMES)
    assert f"weight {weights[1][2, i, j - 1]:.4f}" in area.locator(".pg-reading").inner_text()
    looks, looked = area.get_by_role("radiogroup").all()
    looks.get_by_role("radio").nth(9).hover()
    tab.evaluate(FRAMES)
    for j in range(T):
        assert looks.get_by_role("radio").nth(j).get_attribute("aria-label").endswith(f"weight {weights[1][2, 9, j]:.2f}")
        assert looked.get_by_role("radio").nth(j).get_attribute("aria-label").endswith(f"weight {weights[1][2, j, 9]:.2f}")


def test_one_number_is_followed_through_every_step(tab, model):
    type_text(tab, PROMPTS["ASCII"])
    area = panel(tab, "walk")
    steps = area.locator("li")
    assert steps.count() == 21 and all(steps.nth(n).locator("a").get_attribute("href") for n in range(21))
    with torch.no_grad(), trace(model) as log:
        model(window(model, PROMPTS["ASCII"]))
    strip = steps.nth(1).get_by_role("slider")
    strip.focus()
    tab.keyboard.press("Home")
    tab.keyboard.press("ArrowRight")
    tab.evaluate(FRAMES)
    def minus(x):
        return f"{x:.2f}".replace("-", "−")
    assert strip.get_attribute("aria-valuetext").startswith(f"column 1: {minus(log['embedding'][0, -1, 1].item())} = row 116 of the table")
    assert f"column 1: {minus(log['positions'][0, -1, 1].item())} = " in steps.nth(2).inner_text(), "the same column, one step on"
    area.get_by_role("group", name="layer").get_by_role("button", name="1").click()
    tab.evaluate(FRAMES)
    assert "blocks.1.norm2" in steps.nth(18).inner_text()
    for n in range(21):
        assert "undefined" not in steps.nth(n).inner_text() and "NaN" not in steps.nth(n).inner_text()


def test_a_change_is_shown_beside_the_original(tab):
    type_text(tab, PROMPTS["ASCII"])
    click("FFN", 1)(tab)
    tab.evaluate(FRAMES)
    area = panel(tab, "change")
    assert "was" in area.locator(".pg-share").first.inner_text() and "before" in area.locator(".pg-reading").inner_text()
    assert area.locator(".pg-row").nth(1).get_by_role("button", name="FFN").get_attribute("aria-pressed") == "false"
    tab.get_by_role("button", name="Reset all changes").click()
    tab.evaluate(FRAMES)
    assert "was" not in area.locator(".pg-share").first.inner_text()


@pytest.mark.parametrize("prompt", ["The ", "漢"])
def test_greedy_text_is_pythons(prompt, tab, model):
    type_text(tab, prompt)
    slide("temperature", 0)(tab)
    area = panel(tab, "generate")
    area.get_by_role("button", name="Run").click()
    tab.wait_for_function("playground.generation.steps.length >= 5")
    area.get_by_role("button", name="Pause").click()
    count = tab.evaluate("playground.generation.steps.length")
    tab.wait_for_timeout(300)
    assert tab.evaluate("playground.generation.steps.length") == count, "it runs on after Pause"
    tab.evaluate("""async () => { const button = [...document.querySelectorAll('.pg-actions button')].find(b => b.textContent == 'One symbol');
      while (playground.generation.steps.length < 200) { button.click(); if (playground.generation.steps.length % 20 == 0) await new Promise(requestAnimationFrame) } }""")
    ours = tab.evaluate("playground.generation.steps.map(step => step.drawn)")
    assert ours[:200] == [step.id for step in generate(model, prompt, tokens=200, temperature=0)]


def test_drawing_with_temperature_top_k_and_seed(tab):
    def text(seed):
        tab.get_by_label("seed", exact=True).fill(str(seed))
        tab.get_by_label("seed", exact=True).press("Enter")
        area.get_by_role("button", name="Start over").click() if tab.evaluate("playground.generation.steps.length") else None
        for _ in range(12):
            area.get_by_role("button", name="One symbol").click()
        tab.evaluate(FRAMES)
        return tab.evaluate("playground.generation.steps.map(step => step.drawn)")
    area = panel(tab, "generate")
    tab.get_by_label("top-k", exact=True).fill("3")
    first = text(1)
    assert text(1) == first != text(2)
    assert tab.evaluate("playground.generation.steps.every(s => s.probabilities.filter(p => p > 0).length == 3 && s.probabilities[s.drawn] > 0)")
    assert area.get_by_text("← drawn").is_visible()
    area.get_by_role("button", name="Use as sentence").click()
    tab.evaluate(FRAMES)
    assert len(tab.get_by_label("Type a sentence").input_value()) > len(PROMPTS["ASCII"])


@pytest.mark.parametrize("n", [0, 7, 19])
def test_a_moment_of_the_training_is_that_of_the_file(n, tab, model):
    text = "the q"
    type_text(tab, text)
    area = panel(tab, "learn")
    area.get_by_role("button", name="Load the training run").click()
    tab.wait_for_function("playground.moments()")
    tab.get_by_label("moment of the training", exact=True).fill(str(n))
    with safetensors.safe_open(ROOT / "docs/assets/playground/checkpoints.safetensors", "pt") as file:
        then = TinyLLM(model.config)
        then.load_state_dict({name: file.get_tensor(name)[n].float() for name in file.keys()})
        steps, shipped = json.loads(file.metadata()["steps"]), file.metadata()["shipped"]
    logits = in_python(then, text, "nothing")[0]
    assert (shown(tab, "playground.now.logits") - logits).abs().max() <= 1e-4
    assert (f"After step {steps[n]}." if n else "Before the first step.") in area.locator(".pg-reading").inner_text()
    assert area.locator(".pg-bars code").first.inner_text() == symbol(logits[-1].argmax().item())
    assert tab.get_by_text("Not the model as shipped").is_visible()
    tab.get_by_label("moment of the training", exact=True).fill(str(len(steps)))
    assert (shown(tab, "playground.now.logits") - in_python(model, text, "nothing")[0]).abs().max() <= 1e-4
    assert not tab.get_by_text("Not the model as shipped").is_visible()
    weights = (ROOT / "tinyllm" / "pretrained.safetensors").read_bytes()
    assert shipped == hashlib.sha256(weights).hexdigest(), "the shipped weights have changed: run `make weights`"


def test_chapters_have_small_instances(server, browser):  # noqa: F811
    pages = [path.parent.name for path in sorted(SITE.glob("*/index.html")) if 'class="tinyllm-playground"' in path.read_text(encoding="utf-8")]
    assert {name[:2] for name in pages} == {"01", "04", "06", "10", "11", "pl"}
    for name in pages[:-1]:
        tab = opened(browser, f"{server}{name}/")
        area = tab.locator(".tinyllm-playground[data-panel]")
        assert area.get_by_role("link", name="More in the playground").get_attribute("href") == server + "playground/"
        if name.startswith("04"):
            area.get_by_role("button", name="mask").click()
            tab.evaluate(FRAMES)
            assert "before" in area.locator(".pg-reading").filter(has_text="First choice").inner_text()
        assert tab.problems == []
        tab.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("prompt", ["longer than the context", "emoji"])
def test_on_a_phone(prompt, scheme, server, browser):  # noqa: F811
    tab = opened(browser, server + "playground/", viewport={"width": 390, "height": 844}, has_touch=True, color_scheme=scheme, reduced_motion="reduce")
    type_text(tab, PROMPTS[prompt])
    panel(tab, "sentence").get_by_role("radio").nth(5).tap()
    panel(tab, "attention").locator("canvas.pg-large").tap(position={"x": 100, "y": 200})
    panel(tab, "attention").locator('[data-head="0.3"]').tap()
    panel(tab, "change").get_by_role("button", name="mask").tap()
    panel(tab, "generate").get_by_role("button", name="One symbol").tap()
    tab.evaluate(FRAMES)
    assert tab.evaluate("playground.state.at") == 5
    assert tab.evaluate("document.documentElement.scrollWidth") <= 390
    assert tab.problems == []
    tab.close()


def test_it_works_in_a_page_opened_from_a_file(browser):  # noqa: F811
    tab = opened(browser, (SITE / "playground" / "index.html").as_uri())
    assert tab.evaluate("playground.now.T") > 0
    tab.close()


def test_it_is_light_and_fast(server, browser, record_property):  # noqa: F811
    tab = browser.new_page()
    sizes = {}
    tab.on("response", lambda r: sizes.update({r.url.removeprefix(server): int(r.headers.get("content-length", 0))}))
    tab.goto(server + "playground/", wait_until="networkidle")
    ours = {name: size for name, size in sizes.items() if name.startswith("assets/playground/")}
    assert {"model.js", "ui.js", "playground.css", "pretrained.safetensors"} == {name.rsplit("/")[-1] for name in ours}
    assert sum(ours.values()) < 500 * KB, ours
    ms = tab.evaluate("""() => { const ids = encode("x = 1; ".repeat(20)).slice(0, playground.shipped.config.context);
      for (let i = 0; i < 10; i++) playground.shipped.forward(ids);
      const begin = performance.now(); for (let i = 0; i < 20; i++) playground.shipped.forward(ids); return (performance.now() - begin) / 20 }""")
    print(f"\nplayground: {sum(ours.values()) / KB:.0f} KB, {ms:.1f} ms for a full context")
    assert ms < 500
    tab.close()
