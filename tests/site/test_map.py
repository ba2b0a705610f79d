"""The map of the playground: every number on it against PyTorch, its layout against print(model), and its use."""

import random
import re

import pytest
import torch
from safetensors.torch import save_file

from test_playground import (CHANGES, FRAMES, PROMPTS, choose, first_choice, log_in_python, model, opened, shown, tab,  # noqa: F401
                             tool, type_text)
from test_site import ROOT, SITE, browser, server  # noqa: F401 (fixtures)
from tinyllm import Config, TinyLLM, encode, symbol
from tools.site.drawing import layout, parts

pytestmark = pytest.mark.site

TILES = """() => playground.map.plan.tiles.map(t => ({ name: t.names.at(-1), names: t.names, head: t.head, heads: t.heads ?? null, weight: !!t.weight,
    again: t.again, rows: t.rows, cols: t.cols, x: t.x, y: t.y, w: t.w, h: t.h, transposed: !!t.transposed, label: t.label }))"""
NUMBERS = """(wanted) => wanted.map(([i, r, c]) => { const t = playground.map.plan.tiles[i];
    return numberAt(t, r, c, playground.now.model, playground.now) }).map(x => x === -Infinity ? null : x)"""


def on_the_map(tensor, tile):
    """The tensor of a trace (or a weight) as the tile shows it: (rows, cols)."""
    if tile["transposed"]:
        return tensor.T
    if tensor.dim() == 1:
        return tensor[None]
    if tile["weight"] or tile["name"] == "mask":
        return tensor
    tensor = tensor[0]                                      # one text
    if tile["head"] is not None:
        return tensor[tile["head"]]
    return tensor.transpose(0, 1).flatten(1) if tile["heads"] else tensor


def cells(tile, few=60):
    everywhere = [(r, c) for r in range(tile["rows"]) for c in range(tile["cols"])]
    return everywhere if len(everywhere) <= few else random.sample(everywhere, few)


@pytest.mark.parametrize("change", ["nothing", "head 0.1", "FFN 1", "mask", "an attention weight", "a query"])
@pytest.mark.parametrize("prompt", [*PROMPTS, "empty", "1,000 characters"])
def test_cells_of_every_tensor_are_pytorchs(prompt, change, tab, model):  # noqa: F811
    text = {"empty": "", "1,000 characters": "It is not a list. " * 56}.get(prompt, PROMPTS.get(prompt))
    type_text(tab, text)
    if text == "":
        assert {tile["rows"] for tile in tab.evaluate(TILES) if not tile["weight"]} == {0}
        return
    CHANGES[change][0](tab)
    tab.evaluate(FRAMES)
    log, parameters = log_in_python(model, text, change), model.state_dict()
    tiles = tab.evaluate(TILES)
    wanted = [(i, r, c) for i, tile in enumerate(tiles) for r, c in cells(tile)]
    for (i, r, c), value in zip(wanted, tab.evaluate(NUMBERS, wanted), strict=True):
        tile = tiles[i]
        tensor = parameters[tile["name"]] if tile["weight"] else log[tile["name"]]
        right = on_the_map(tensor, tile)[r, c].item()
        assert abs((float("-inf") if value is None else value) - right) <= 1e-4 or value is None and right == float("-inf"), \
            f"{tile['name']} ({r}, {c}): {value} instead of {right}"


def test_every_weight_is_on_the_map_once(tab, model):  # noqa: F811
    tiles = [tile for tile in tab.evaluate(TILES) if tile["weight"]]
    assert sorted(tile["name"] for tile in tiles) == sorted(model.state_dict())
    assert sum(tile["rows"] * tile["cols"] for tile in tiles) == 98_816


def test_the_parts_are_those_of_print_in_the_order_of_the_work(tab, model):  # noqa: F811
    type_text(tab, PROMPTS["ASCII"])
    names = []
    for tile in tab.evaluate(TILES):
        if not tile["weight"] and not tile["again"] and tile["name"] not in names:
            names += [name for name in tile["names"] if name not in names]
    assert names == list(log_in_python(model, PROMPTS["ASCII"], "nothing"))
    printed = {name for name, part in model.named_modules() if not list(part.children())}
    assert printed == set(names) - {"probabilities"}
    drawing = {part.name: part.shape for part in layout.whole(parts.read(model)).drawn()}
    assert printed == printed & set(drawing), "the drawing of the architecture has the same parts"
    sizes = {"T": len(encode(PROMPTS["ASCII"])), "64": 64, "128": 128, "256": 256}
    for tile in tab.evaluate(TILES):                        # and the same shapes
        if not tile["weight"] and tile["name"] != "probabilities" and tile["head"] is None and not tile["heads"]:
            assert [tile["rows"], tile["cols"]] == [sizes[axis] for axis in drawing[tile["name"]]], tile["name"]


CONFIGS = [{}, {"norm_first": True}, {"bias": True}, {"norm_first": True, "bias": True, "n_layers": 3, "d_model": 24, "n_heads": 3, "d_ff": 7, "context": 300},
           {"d_model": 2, "n_heads": 1, "d_ff": 1, "n_layers": 1, "context": 1}]


@pytest.mark.parametrize("sizes", CONFIGS, ids=str)
@pytest.mark.parametrize("T", [0, 1, 24, 25, 100])
def test_no_two_tensors_are_at_one_place(sizes, T, tab):  # noqa: F811
    config = Config(**sizes)
    T = min(T, config.context)
    plan = tab.evaluate("([config, T]) => planMap(config, T)", [vars(config), T])
    boxes = [(t["x"], t["y"], t["x"] + t["w"], t["y"] + t["h"]) for t in plan["tiles"] if t["h"]]
    for i, (left, top, right, bottom) in enumerate(boxes):
        assert left >= 0 and top >= 0 and right <= plan["width"] and bottom <= plan["height"]
        for other in boxes[:i]:
            assert right <= other[0] or other[2] <= left or bottom <= other[1] or other[3] <= top, (boxes[i], other)
    weights = sum(t["rows"] * t["cols"] for t in plan["tiles"] if t.get("weight"))
    assert weights == sum(p.numel() for p in TinyLLM(config).parameters())


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_cell_has_the_colour_of_its_number(scheme, server, browser):  # noqa: F811
    tab = opened(browser, server + "playground/", color_scheme=scheme, reduced_motion="reduce")  # noqa: F811
    type_text(tab, PROMPTS["ASCII"])
    for name in ("blocks.0.sum1", "blocks.1.ffn.down.weight", "embedding.weight", "head"):
        tab.evaluate("(name) => playground.map.toTile(findTile(playground.map.plan, name))", name)
        found = tab.evaluate("""(name) => { const { map } = playground, tile = findTile(map.plan, name), g = map.canvas.getContext("2d"), ratio = devicePixelRatio, found = [];
          for (let n = 0; n < 400; n++) {
            const r = (n * 7) % tile.rows, c = (n * 13) % tile.cols, [x, y] = map.pixel(tile, r, c);
            if (x < 40 || y < 0 || x >= map.canvas.width / ratio || y >= map.canvas.height / ratio) continue;
            found.push([numberAt(tile, r, c, playground.now.model, playground.now), ...g.getImageData(x * ratio, y * ratio, 1, 1).data]);
          }
          return found }""", name)
        largest = max(abs(value) for value, *_ in found)
        clear = [(value, red - blue) for value, red, _, blue, _ in found if abs(value) > largest / 3]
        assert len(clear) > 5
        assert all((warm > 0) == (value > 0) for value, warm in clear), f"{name}: red is above zero, blue below"
    tab.close()


def test_the_picture_does_not_depend_on_what_was_typed_before(tab):  # noqa: F811
    """Only what has changed is painted at a key: the same pixels as when all is painted anew."""
    differing = tab.evaluate("""async (texts) => {
      const box = document.querySelector("textarea"), { map } = playground, { canvas } = map, frame = () => new Promise(requestAnimationFrame), found = [];
      const pixels = () => canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
      for (const text of texts) {
        box.value = text, box.dispatchEvent(new Event("input"));
        await frame(), await frame();
        const painted = pixels();
        map.repaint();
        const anew = pixels();
        found.push(painted.filter((byte, i) => Math.abs(byte - anew[i]) > 40).length);
      }
      return found }""", ["It is", "It is n", "It is not a list", "It is not a lis", "It is nut", "", "T", "The quick brown fox jumps", "The quick brown"])
    assert max(differing) == 0, differing


def test_every_number_says_what_it_was_made_from(tab):  # noqa: F811
    type_text(tab, PROMPTS["ASCII"])
    told = tab.evaluate("""() => playground.map.plan.tiles.flatMap((tile) => [[0, 0], [tile.rows - 1, tile.cols - 1]].map(([r, c]) => {
      const { what, sources, origin } = playground.map.explain({ tile, r, c });
      return { name: tile.names.at(-1), weight: !!tile.weight, what, origin, sources: sources.map(([t, where]) => [t?.names.at(-1) ?? null, where]) } }))""")
    package = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "tinyllm").glob("*.py"))
    for number in told:
        assert number["what"] and not re.search("undefined|NaN|null", number["what"]), number
        assert all(name for name, _ in number["sources"]), number
        if not number["weight"]:
            assert number["origin"][0] in package, f"{number['name']}: no such line: {number['origin'][0]}"
            assert number["sources"] or number["name"] in ("mask",), number
            page, anchor = number["origin"][1].split("/#")
            assert f'id="{anchor}"' in (SITE / page / "index.html").read_text(encoding="utf-8"), number["origin"]
    by_name = {number["name"]: [name for name, _ in number["sources"]] for number in told}
    assert by_name["blocks.1.attention.q"] == ["blocks.1.attention.query.weight", "blocks.0.norm2"]
    assert by_name["blocks.0.attention.mix"] == ["blocks.0.attention.weights", "blocks.0.attention.v"]
    assert by_name["blocks.1.sum2"] == ["blocks.1.norm1", "blocks.1.ffn.down"]


def test_pointing_choosing_and_going_closer(tab, model):  # noqa: F811
    type_text(tab, PROMPTS["ASCII"])
    spot = "([name, r, c]) => playground.map.pixel(findTile(playground.map.plan, name), r, c)"
    canvas, name = tab.locator(".pg-canvas"), "blocks.0.ffn.hidden"
    canvas.scroll_into_view_if_needed()
    x, y = tab.evaluate(spot, [name, 9, 40])
    canvas.hover(position={"x": x, "y": y})
    tab.evaluate(FRAMES)
    assert tab.locator(".pg-what").inner_text().startswith(name) and "GELU(" in tab.locator(".pg-why").inner_text()
    canvas.click(position={"x": x, "y": y})
    tab.wait_for_function("playground.map.view.s >= 7.9")
    assert tab.evaluate("[playground.map.chosen.tile.names[0], playground.state.at]") == [name, tab.evaluate("playground.map.chosen.r")]
    assert "ffn › hidden" in tab.locator(".pg-trail").inner_text()
    for _ in range(2):                                      # choose a number, then go closer
        x, y = tab.evaluate(spot, [name, 5, 60])
        canvas.click(position={"x": x, "y": y})
        tab.evaluate(FRAMES)
    tab.wait_for_function("playground.map.view.s >= 24")
    value = log_in_python(model, PROMPTS["ASCII"], "nothing")[name][0, 5, 60].item()
    assert f"{value:.2f}".replace("-", "−") in tab.locator(".pg-value").inner_text()
    tab.get_by_role("button", name="show the whole model").click()
    tab.wait_for_function("playground.map.chosen === null && playground.map.view.x === 0")


def test_a_weight_can_be_changed_and_is_undone(tab, model):  # noqa: F811
    text = PROMPTS["ASCII"]
    type_text(tab, text)
    before = first_choice(tab)
    choose(tab, "blocks.0.attention.value.weight", 3, 20)   # drawn transposed: input 3, output 20
    tab.get_by_label("this number").fill("5")
    tab.get_by_label("this number").press("Enter")
    choose(tab, "head.weight", 1, 2)
    tab.get_by_label("scale of head.weight").fill("0.5")
    changed = TinyLLM(model.config)
    changed.load_state_dict(model.state_dict())
    with torch.no_grad():
        changed.blocks[0].attention.value.weight[20, 3] = 5
        changed.head.weight *= 0.5
        logits = changed(encode(text)[None])[0]
    assert (shown(tab, "playground.now.logits") - logits).abs().max() <= 1e-4
    assert "head.weight × 0.5" in tab.locator(".pg-now").inner_text() and "1 number set" in tab.locator(".pg-now").inner_text()
    tab.get_by_label("show only what your changes changed").check()
    tab.evaluate(FRAMES)
    assert tab.evaluate("playground.state.difference")
    tab.get_by_role("button", name="Undo all").click()
    tab.evaluate(FRAMES)
    assert first_choice(tab) == before and not tab.evaluate("playground.now.changed || playground.state.difference")


def test_the_tour_goes_from_the_whole_to_the_prediction_and_back(tab, model):  # noqa: F811
    type_text(tab, "a text of mine")
    box = tool(tab, "Take the tour: one prediction in ten stops")
    seen = []
    for n in range(10):
        assert f"{n + 1} of 10" in box.inner_text() and len(box.locator("li:visible").all()) == 1
        seen.append((box.locator("li:visible strong").inner_text(), tab.evaluate("playground.map.chosen?.tile.names.at(-1) ?? null")))
        assert box.bounding_box()["y"] >= 0 and box.bounding_box()["y"] < 300, "the stop is in view, and so the map below it"
        if n < 9:
            box.get_by_role("button", name="next").click()
            tab.evaluate(FRAMES)
    assert [name for _, name in seen] == [None, "embedding.weight", "positions", "blocks.0.attention.q", "blocks.0.attention.scores",
                                          "blocks.0.attention.weights", "blocks.0.sum1", "blocks.0.ffn.hidden", "blocks.1.norm2", "probabilities"]
    assert len({words for words, _ in seen}) == 10 and box.get_by_role("button", name="next").is_disabled()
    assert tab.evaluate("symbol(playground.map.chosen.c)") == first_choice(tab)[0] == "u"
    box.get_by_role("button", name="back").click()
    tab.evaluate(FRAMES)
    assert "9 of 10" in box.inner_text() and tab.evaluate("playground.map.chosen.tile.names[0]") == "blocks.1.norm2"
    tab.get_by_role("button", name="Take the tour").click()
    tab.evaluate(FRAMES)
    assert tab.get_by_label("Type a sentence").input_value() == "a text of mine" and not box.is_visible()


def test_with_the_keyboard_alone(tab, model):  # noqa: F811
    type_text(tab, PROMPTS["ASCII"])
    tab.wait_for_timeout(400)                               # the list of tensors is renewed when typing has paused
    for _ in range(60):
        tab.keyboard.press("Tab")
        if tab.evaluate("document.activeElement.closest('.pg-parts') !== null"):
            break
    chosen = "[playground.map.chosen.tile.names.at(-1), playground.map.chosen.head, playground.map.chosen.r, playground.map.chosen.c]"
    assert tab.evaluate(chosen)[0] == "embedding.weight"
    tab.keyboard.press("ArrowRight")
    tab.keyboard.press("ArrowRight")
    assert tab.evaluate(chosen)[0] == "positions"
    tab.keyboard.press("Enter")
    tab.keyboard.press("ArrowRight")
    tab.keyboard.press("ArrowUp")
    T = len(encode(PROMPTS["ASCII"]))
    assert tab.evaluate(chosen)[2:] == [T - 2, 1]
    value = log_in_python(model, PROMPTS["ASCII"], "nothing")["positions"][0, T - 2, 1].item()
    assert f"positions, row {T - 2}, column 1: {value:.2f}".replace("-", "−") in tab.locator(".pg-hidden[aria-live]").all_inner_texts()
    tab.keyboard.press("Escape")
    tab.keyboard.press("End")
    assert tab.evaluate(chosen)[0] == "probabilities"
    tab.keyboard.press("Escape")
    assert tab.evaluate("playground.map.chosen") is None
    names = tab.locator(".pg-parts button").all_inner_texts()
    assert len(names) == len(set(names)) > 60


@pytest.mark.parametrize("sizes", [{"norm_first": True, "bias": True, "d_model": 32, "n_heads": 2, "n_layers": 3, "d_ff": 48, "context": 40}, {"d_model": 16, "n_heads": 1}], ids=str)
def test_a_checkpoint_of_the_readers_own(sizes, tab, tmp_path):  # noqa: F811
    torch.manual_seed(1)
    own = TinyLLM(Config(**sizes))
    own.save(tmp_path / "my.safetensors")
    type_text(tab, PROMPTS["longer than the context"])
    tool(tab, "Open a checkpoint")
    tab.locator("#pg-file").set_input_files(tmp_path / "my.safetensors")
    tab.wait_for_function("playground.state.model !== playground.shipped")
    with torch.no_grad():
        logits = own(encode(PROMPTS["longer than the context"])[None, -own.config.context:])[0]
    assert (shown(tab, "playground.now.logits") - logits).abs().max() <= 1e-4
    assert first_choice(tab)[0] == symbol(logits[-1].argmax().item()) and "my.safetensors" in tab.locator(".pg-now").inner_text()
    tiles = tab.evaluate(TILES)
    assert sorted(tile["name"] for tile in tiles if tile["weight"]) == sorted(own.state_dict())
    told = tab.evaluate("""() => playground.map.plan.tiles.map((tile) => playground.map.explain({ tile, r: tile.rows - 1, c: 0 }).what)""")
    assert not any(re.search("undefined|NaN", words) for words in told)
    tab.get_by_role("button", name="Back to the shipped model").click()
    tab.evaluate(FRAMES)
    assert tab.evaluate("playground.state.model === playground.shipped")


@pytest.mark.parametrize("case", ["no checkpoint", "another file of tensors", "cut in half", "the training run", "too large", "another alphabet"])
def test_what_cannot_be_drawn_is_said_in_one_line(case, tab, tmp_path):  # noqa: F811
    path = tmp_path / "my.safetensors"
    if case == "no checkpoint":
        path.write_bytes(b"nothing of the kind")
    elif case == "cut in half":
        whole = (ROOT / "tinyllm/pretrained.safetensors").read_bytes()
        path.write_bytes(whole[: len(whole) // 2])
    elif case == "the training run":
        path.write_bytes((ROOT / "docs/assets/playground/checkpoints.safetensors").read_bytes())
    elif case == "another file of tensors":
        save_file({"a": torch.zeros(2)}, path)
    else:
        sizes = {"d_model": 512, "d_ff": 2048} if case == "too large" else {"vocab_size": 300}
        TinyLLM(Config(**sizes)).save(path)
    tool(tab, "Open a checkpoint")
    tab.locator("#pg-file").set_input_files(path)
    note = tab.locator(".pg-tool [role=status]")
    note.filter(has_text="my.safetensors cannot be shown").wait_for()
    says = {"too large": "parameters are too many to draw", "another alphabet": "it knows 300 symbols"}.get(case, "it is no checkpoint of TinyLLM")
    assert says in note.inner_text() and tab.evaluate("playground.state.model === playground.shipped")


def test_without_javascript_there_is_the_drawing(server, browser):  # noqa: F811
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(server + "playground/")
    drawing = page.locator("noscript img")
    assert drawing.is_visible() and drawing.bounding_box()["width"] > 600
    assert page.get_by_text("The whole model.").is_visible(), "the stops of the tour can be read"
    context.close()
