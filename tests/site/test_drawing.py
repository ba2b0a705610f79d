"""The drawing of the architecture against the model: parts, shapes, order, and each of its wires."""

import math
import re
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from test_site import browser  # noqa: F401 (a fixture)
from tinyllm import Config, TinyLLM, trace
from tools.site.drawing import head, layout, parts, pictures, strip, svg
from tools.site.drawing.scene import Plus, Wire

ROOT = Path(__file__).resolve().parents[2]
SMALL = Config(vocab_size=256, d_model=12, n_layers=1, n_heads=3, d_ff=7, context=9)
CONFIGS = [Config(), Config(norm_first=True), SMALL, replace(SMALL, n_layers=3, bias=True, norm_first=True),
           replace(SMALL, n_layers=5, context=2), Config(d_model=2, n_heads=1, d_ff=1, n_layers=1, context=1)]
LARGE = Config(vocab_size=50257, d_model=768, n_layers=2, n_heads=12, d_ff=3072, bias=True, norm_first=True)
SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(params=CONFIGS, ids=lambda config: "-".join(map(str, vars(config).values())))
def model(request):
    torch.manual_seed(0)
    return TinyLLM(request.param)


def printed(model):
    """Attribute path -> (class, sizes), read off the lines of print(model); equal blocks are printed once."""
    found, path = {}, []
    for line in str(model).splitlines()[1:]:
        if line.strip() == ")":
            continue
        depth = (len(line) - len(line.lstrip())) // 2 - 1
        name, times, kind, sizes = re.fullmatch(r" *\((.+?)\): (?:(\d+) x )?(\w+)\((.*)", line).groups()
        path[depth:] = [name]
        found[".".join(path)] = kind, sizes.removesuffix(")")
    del found["blocks"]
    names = []
    for name in list(found):
        if not (repeated := re.match(r"blocks\.(\d+)-(\d+)$", name)):
            names += [name] * ("-" not in name)
            continue
        for i in range(int(repeated[1]), int(repeated[2]) + 1):
            names += [inner.replace(name, f"blocks.{i}", 1) for inner in found if inner.startswith(name)]
            found |= {f"blocks.{i}{inner.removeprefix(name)}": what for inner, what in list(found.items())
                      if inner.startswith(name)}
    return {name: found[name] for name in names}


def traced(model):
    ids = torch.arange(min(model.config.context, 4))[None] % model.config.vocab_size
    with trace(model) as log, torch.no_grad():
        model(ids)
    return ids, log


@pytest.mark.parametrize("columns", [1, 2])
def test_the_parts_are_those_of_print_with_the_shapes_of_a_trace(model, columns):
    scene, (ids, log) = layout.whole(parts.read(model), columns), traced(model)
    drawn = {part.name: part for part in scene.drawn()}
    assert len(drawn) == len(scene.drawn()), "a part is drawn twice"
    says = {name: what for name, what in printed(model).items() if what[0] != "NoneType"}
    assert {name: (part.kind, part.sizes) for name, part in drawn.items()} == says
    for name, x in log.items():
        shape = tuple(ids.shape[1] if axis == "T" else int(axis) for axis in drawn[name].shape)
        assert shape == tuple(x.shape)[x.dim() > 2:], name
    for name, part in drawn.items():
        assert part.parameters == sum(p.numel() for p in model.get_submodule(name).parameters()), name


def test_the_parts_are_read_in_the_order_of_print(model):
    scene = layout.whole(parts.read(model))
    inner = [part.name for part in scene.drawn() if part.name in traced(model)[1]]
    order = [name for name in printed(model) if name in inner]
    if model.config.norm_first:         # registered in one order, run in the other
        order = sorted(order, key=inner.index)
        log = list(traced(model)[1])
        norms = [name for name in inner if "norm" in name or "sum" in name]
        assert norms == sorted(norms, key=log.index)
    assert inner == order


def test_every_wire_is_true(model):
    """What a part returns is computed from what the wires bring to it."""
    scene, (ids, log) = layout.whole(parts.read(model)), traced(model)
    log["ids"] = ids
    inputs = {}
    for wire in scene.all(Wire):
        if wire.source and wire.target:
            inputs.setdefault(wire.target, set()).add(wire.source)
    assert inputs.keys() == log.keys() - {"mask", "ids"}
    for name, sources in inputs.items():
        module, short = model.get_submodule(name), name.rpartition(".")[2]
        given = {source.rpartition(".")[2]: log[source] for source in sources}
        first = next(iter(given.values()))
        if short in ("q", "k", "v"):
            y = first.unflatten(-1, (model.config.n_heads, -1)).transpose(1, 2)
        elif short == "scores":
            y = given["q"] @ given["k"].mT / math.sqrt(given["q"].shape[-1])
        elif short == "weights":
            y = (given["scores"] + given["mask"]).softmax(-1)
        elif short == "mix":
            y = given["weights"] @ given["v"]
        elif short == "output":
            y = module(first.transpose(1, 2).flatten(2))
        elif short == "hidden":
            y = torch.nn.functional.gelu(first)
        else:
            y = sum(given.values()) if short.startswith("sum") else module(first)
            assert len(given) == 1 + short.startswith("sum"), name
        torch.testing.assert_close(y.detach(), log[name], msg=name)


def test_a_head_has_the_wires_of_the_whole(model):
    whole, one = (drawing(parts.read(model)) for drawing in (layout.whole, head.head))
    wires, few = ({(wire.source, wire.target) for wire in scene.all(Wire) if wire.target}
                  for scene in (whole, one))
    assert few <= wires and len(few) == 12
    shown = {part.name: part for part in whole.drawn()}
    assert all(shown[part.name] == part for part in one.drawn())


def test_residual_arcs_end_in_a_plus_and_wires_lead_down(model):
    scene = layout.whole(parts.read(model))
    plus = {(item.x, item.y): item.part.name for item in scene.all(Plus) if item.part}
    arcs = [wire for wire in scene.all(Wire) if wire.style == "arc"]
    assert len(arcs) == 2 * model.config.n_layers == len(plus)
    for arc in arcs:
        x, y = arc.points[-1]
        assert plus[x, y + 9] == arc.target
    back = layout.backwards(parts.read(model))
    assert {(wire.target, wire.source) for wire in arcs} <= {
        (wire.source, wire.target) for wire in back.all(Wire) if wire.style == "arc back"}, "turned round"


def test_the_committed_files_are_what_the_command_makes():
    made = pictures.files()
    kept = {path.name: path.read_text(encoding="utf-8") for path in pictures.FOLDER.iterdir()}
    assert made == kept, "run: make drawings"
    for name, text in made.items():
        root = ElementTree.fromstring(text)
        assert root.find(SVG + "title").text and len(root.find(SVG + "desc").text) > 100
        assert len(text) < 40_000 and "http" not in text.replace("http://www.w3.org/2000/svg", ""), name
    for name in pictures.scenes():
        light, dark = (re.sub(r"#[0-9a-f]{6}", "", made[name + end]) for end in (".svg", "-dark.svg"))
        assert light == dark


def test_no_two_words_meet_and_none_leaves_the_picture(browser):  # noqa: F811
    scenes = pictures.scenes()
    for i, config in enumerate([*CONFIGS, LARGE]):
        anatomy = parts.read(TinyLLM(config))
        scenes |= {f"{i} model": layout.whole(anatomy), f"{i} head": head.head(anatomy),
                   f"{i} gradient": layout.backwards(anatomy), f"{i} orders": layout.orders(anatomy, anatomy)}
    tab = browser.new_page()
    for name, scene in scenes.items():
        tab.set_content(svg.draw(scene, "light"))
        boxes = tab.evaluate("""() => [...document.querySelectorAll("svg text")].map(word => {
            const box = word.getBBox(); return [word.textContent, box.x, box.y, box.width, box.height] })""")
        for i, (word, x, y, width, height) in enumerate(boxes):
            inside = 0 <= x and x + width <= scene.width + 1 and -3 <= y and y + height <= scene.height + 3
            assert inside, (name, word)
            for other, x2, y2, width2, height2 in boxes[:i]:
                apart = x + width <= x2 or x2 + width2 <= x or y + height <= y2 + 4 or y2 + height2 <= y + 4
                assert apart, (name, word, other)
    tab.close()


BOOK = {int(path.name[:2]): path.name for path in sorted((ROOT / "docs").glob("[01]*-*.md"))}
TITLES = {name: f"{number} · <T>" for number, name in BOOK.items()}


@pytest.mark.parametrize("here", range(1, 13))
def test_the_strip_lights_the_chapters_parts_and_links_all_chapters(here):
    page = strip.insert("<h1>x</h1><p>y</p>", BOOK[here], strip.chapters(TITLES), TITLES,
                        lambda name: "" if name == BOOK[here] else f"../{name[:-3]}/")
    assert page.startswith("<h1>x</h1>\n<nav") and page.endswith("</nav>\n<p>y</p>") and len(page) < 6_000
    root = ElementTree.fromstring(re.search(r"<nav.*</nav>", page)[0].replace(" data-search-exclude", ""))
    links = [a for a in root.iter("a")]
    others = {f"../{name[:-3]}/" for number, name in BOOK.items() if number != here}
    assert {a.get("href") for a in links} == {"./"} | others
    current = [a for a in links if a.get("aria-current")]
    assert current and all(a.get("href") == "./" for a in current)
    assert all("here" in li.get("class", "") for li in root.iter("li") if li[0] in current)


def test_the_strip_is_for_chapters_and_names_real_parts():
    assert strip.insert("<h1>x</h1>", "A3-answers.md", {}, {}, str) == "<h1>x</h1>"
    alone = strip.insert("<h1>x</h1>", "01-one.md", {1: "01-one.md"}, {}, lambda name: "")
    assert alone.count("<a ") == 1 and alone.count("<span>") == len(strip.FLOW) + len(strip.WHOLE) - 1
    model = TinyLLM()
    for label, chapter, part in strip.FLOW:
        if part:                        # its class is written in that chapter, or the part is named there
            kind = type(model.get_submodule(part)).__name__
            source = (ROOT / "docs" / BOOK[chapter]).read_text(encoding="utf-8")
            assert f"class {kind}(" in source or kind in source or label in source, label
