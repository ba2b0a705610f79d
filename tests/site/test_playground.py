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


def tool(tab, name):
    """Open the box of one of the things that can be done on the map."""
    button = tab.get_by_role("button", name=name, exact=True)
    if button.get_attribute("aria-expanded") == "false":
        button.click()
    tab.evaluate(FRAMES)
    return tab.locator(".pg-tool:visible")


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


def choose(tab, name, row=0, column=0, head=None):
    tab.evaluate("([name, row, column, head]) => playground.map.select(name, row, column, head)", [name, row, column, head])
    tab.evaluate(FRAMES)


def off(name, head=None):
    """Choose a part on the map and switch it off; of a tensor with the heads side by side, one head."""
    def act(tab):
        choose(tab, name, 0, (head or 0) * 16, head if name.endswith("weights") else None)
        tab.get_by_role("button", name="Switch off").click()
    return act


def scale(name, factor):
    def act(tab):
        choose(tab, name)
        tab.get_by_label(f"scale of {name}").fill(str(factor))
    return act


def set_number(name, row, column, value, head=None):
    def act(tab):
        choose(tab, name, row if row >= 0 else tab.evaluate("playground.now.T") + row, column, head)
        tab.get_by_label("this number").fill(str(value))
        tab.get_by_label("this number").press("Enter")
    return act


def slide(name, value):
    return lambda tab: tab.get_by_label(name, exact=True).fill(str(value))


def first_weight(weights):
    weights = weights.clone()
    weights[0, 1, -1, 0] = 0.9
    return weights


def last_query(q):
    q = q.clone()
    q[0, 2, -1, 5] = 9          # column 37 of the heads side by side
    return q


def zero_head(head):
    return lambda mix: mix.index_fill(1, torch.tensor([head]), 0.0)


def no_positions(model):
    waves = model.positions(torch.zeros(model.config.context, model.config.d_model))
    return lambda x: x - waves[: x.shape[1]]


# What the reader does, and the same in Python.
CHANGES = {
    "nothing": (lambda tab: None, lambda model: {}),
    **{f"head {layer}.{head}": (off(f"blocks.{layer}.attention.mix", head), lambda model, layer=layer, head=head: {f"blocks.{layer}.attention.mix": zero_head(head)})
       for layer in LAYERS for head in HEADS},
    **{f"FFN {layer}": (off(f"blocks.{layer}.ffn.down"), lambda model, layer=layer: {f"blocks.{layer}.ffn.down": torch.zeros_like}) for layer in LAYERS},
    "positions": (off("positions"), lambda model: {"positions": no_positions(model)}),
    "mask": (off("mask"), lambda model: {"mask": torch.zeros_like}),
    "scale 0": (scale("blocks.0.norm2", 0.5), lambda model: {"blocks.0.norm2": lambda x: x * 0.5}),
    "scale 1": (scale("blocks.1.norm2", 2), lambda model: {"blocks.1.norm2": lambda x: x * 2}),
    "an attention weight": (set_number("blocks.0.attention.weights", -1, 0, 0.9, head=1), lambda model: {"blocks.0.attention.weights": first_weight}),
    "a query": (set_number("blocks.1.attention.q", -1, 37, 9), lambda model: {"blocks.1.attention.q": last_query}),
}


def log_in_python(model, text, change):
    with torch.no_grad(), intervene(model, CHANGES[change][1](model)), trace(model) as log:
        log["probabilities"] = model(window(model, text)).softmax(-1)
    return log      # trace's own hooks come last, so they have seen the change


def in_python(model, text, change):
    log = log_in_python(model, text, change)
    return log["head"][0], [log[f"blocks.{layer}.attention.weights"][0] for layer in LAYERS]


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
            tab.get_by_role("button", name="Undo all").click()
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
    assert "no prediction" in tab.locator(".pg-now").inner_text()
    assert tool(tab, "Generate").get_by_role("button", name="One symbol").is_disabled()
    off("blocks.0.attention.query.weight")(tab)             # the weights are there without a sentence
    tab.evaluate(FRAMES)


def top(model, text):
    with torch.no_grad():
        probabilities = model(window(model, text))[0, -1].softmax(-1)
    return symbol(probabilities.argmax().item()), probabilities.max().item()


def first_choice(tab):
    return [tab.locator(".pg-first").first.locator(part).inner_text() for part in ("code", "span")]


def test_typing_predicts_at_every_key(tab, model):
    box = tab.get_by_label("Type a sentence")
    box.fill("")
    typed = ""
    for key in "the q":
        box.press(key if key != " " else "Space")
        typed += key
        label, share = top(model, typed)
        assert first_choice(tab) == [label, f"{100 * share:.0f} %" if share >= 0.0995 else f"{100 * share:.1f} %"]
    tab.wait_for_function("document.querySelector('.pg-hidden[aria-live]').textContent.startsWith('Most likely after q at 4: u')")


def test_a_position_is_chosen_by_pointer_and_by_keyboard(tab, model):
    type_text(tab, PROMPTS["ASCII"])
    area = panel(tab, "sentence map")
    symbols = area.get_by_role("radio")
    symbols.nth(4).click()
    tab.evaluate(FRAMES)
    assert symbols.nth(4).get_attribute("aria-checked") == "true"
    assert first_choice(tab)[0] == top(model, "It is")[0]
    tab.keyboard.press("ArrowLeft")
    tab.evaluate(FRAMES)
    assert symbols.nth(3).get_attribute("aria-checked") == "true" and tab.evaluate("document.activeElement.title").startswith("3:")
    assert first_choice(tab)[0] == top(model, "It i")[0]
    symbols.nth(8).hover()
    tab.evaluate(FRAMES)
    assert area.locator(".pg-reading").first.inner_text().startswith("t at 8")
    tab.keyboard.press("End")
    assert tab.evaluate("playground.state.at") is None


@pytest.mark.parametrize("prompt", ["The ", "漢"])
def test_greedy_text_is_pythons(prompt, tab, model):
    type_text(tab, prompt)
    area = tool(tab, "Generate")
    slide("temperature", 0)(tab)
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
    area = tool(tab, "Generate")
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
    area = tool(tab, "Watch it learn")
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
    assert first_choice(tab)[0] == symbol(logits[-1].argmax().item())
    assert "weights after step" in tab.locator(".pg-now").inner_text()
    tab.get_by_label("moment of the training", exact=True).fill(str(len(steps)))
    assert (shown(tab, "playground.now.logits") - in_python(model, text, "nothing")[0]).abs().max() <= 1e-4
    assert "after step" not in tab.locator(".pg-now").inner_text()
    weights = (ROOT / "tinyllm" / "pretrained.safetensors").read_bytes()
    assert shipped == hashlib.sha256(weights).hexdigest(), "the shipped weights have changed: run `make weights`"


def test_chapters_have_small_instances(server, browser):  # noqa: F811
    pages = [path.parent.name for path in sorted(SITE.glob("*/index.html")) if 'class="tinyllm-playground"' in path.read_text(encoding="utf-8")]
    assert {name[:2] for name in pages} == {"01", "04", "06", "09", "10", "11", "pl"}
    for name in pages[:-1]:
        tab = opened(browser, f"{server}{name}/")
        area = tab.locator(".tinyllm-playground[data-panel]")
        assert area.get_by_role("link", name="More in the playground").get_attribute("href") == server + "playground/"
        if name.startswith("04"):
            area.scroll_into_view_if_needed()
            area.get_by_role("button", name="Switch off mask").click()
            tab.evaluate(FRAMES)
            assert "was" in area.locator(".pg-now").inner_text() and "mask off" in area.locator(".pg-now").inner_text()
        assert tab.problems == []
        tab.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("prompt", ["longer than the context", "emoji"])
def test_on_a_phone(prompt, scheme, server, browser):  # noqa: F811
    tab = opened(browser, server + "playground/", viewport={"width": 390, "height": 844}, has_touch=True, color_scheme=scheme, reduced_motion="reduce")
    type_text(tab, PROMPTS[prompt])
    panel(tab, "sentence map").get_by_role("radio").nth(5).tap()
    tab.evaluate(FRAMES)
    x, y = tab.evaluate("playground.map.pixel(playground.map.plan.tiles.find(t => t.names[0] == 'blocks.0.attention.query'), 5, 20)")
    tab.locator(".pg-canvas").tap(position={"x": x, "y": y})    # goes there
    tab.wait_for_function("playground.map.chosen?.tile.names[0] == 'blocks.0.attention.query' && playground.map.view.s > 0.6")
    tab.get_by_role("button", name="Switch off").tap()
    tab.evaluate(FRAMES)
    assert "off" in tab.locator(".pg-now").inner_text()
    box, line = tab.locator(".pg-inspector").bounding_box(), tab.locator(".pg-now").bounding_box()
    assert 0 <= line["y"] and box["y"] + box["height"] <= 845, "prediction and levers are in view together"
    area = tool(tab, "Generate")
    area.get_by_role("button", name="One symbol").tap()
    area.get_by_role("button", name="Start over").tap()
    panel(tab, "sentence map").get_by_role("radio").nth(5).tap()
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
    assert {"parts.js", "model.js", "plan.js", "inspect.js", "map.js", "stage.js", "trainer.js", "ui.js", "playground.css", "pretrained.safetensors"} == {name.rsplit("/")[-1] for name in ours}
    assert sum(ours.values()) < 550 * KB, ours
    ms = tab.evaluate("""() => { const ids = encode("x = 1; ".repeat(20)).slice(0, playground.shipped.config.context);
      for (let i = 0; i < 10; i++) playground.shipped.forward(ids);
      const begin = performance.now(); for (let i = 0; i < 20; i++) playground.shipped.forward(ids); return (performance.now() - begin) / 20 }""")
    print(f"\nplayground: {sum(ours.values()) / KB:.0f} KB, {ms:.1f} ms for a full context")
    assert ms < 500
    tab.close()
