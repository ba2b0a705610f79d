"""The playground: the trained model for the browser, and its scripts on the pages that use it."""

import base64
import json
from dataclasses import replace
from pathlib import Path

from mkdocs.structure.files import File
from mkdocs.utils import get_relative_url

from tools.site.pieces import fence

ROOT = Path(__file__).resolve().parents[2]
FOLDER = "assets/playground/"
SCRIPTS = ("parts.js", "model.js", "plan.js", "inspect.js", "map.js", "stage.js", "trainer.js", "ui.js")
SOURCE = "{{ model.js }}"                    # in the page's Markdown: the source of the forward pass
MARK = 'class="tinyllm-playground"'          # a panel; a page without one loads nothing


def files(config, sources: list[Path]) -> list[File]:
    """The weights as they are shipped, and again as a script: a page that was opened from a file
    may not fetch, but may load scripts. A book without panels needs neither."""
    if not any(MARK in source.read_text(encoding="utf-8") for source in sources):
        return []
    weights = (ROOT / "tinyllm" / "pretrained.safetensors").read_bytes()
    script = f'tinyllmWeights = "{base64.b64encode(weights).decode()}";\n'
    return [File.generated(config, FOLDER + "pretrained.safetensors", content=weights),
            File.generated(config, FOLDER + "pretrained.js", content=script),
            File.generated(config, FOLDER + "parts.js", content=f"const PARTS = {json.dumps(parts_of_the_map())};\n")]


def parts_of_the_map() -> dict[str, list[dict]]:
    """What the map draws, read from the same parts as the drawings: {"post": …, "pre": …}, the parts of a model with
    one block that compute something, in the order of the forward pass, each with its class and the letters of its shape."""
    from tinyllm import Config          # when the book is built: the package is tangled before that
    from tools.site.drawing import parts

    config = Config(vocab_size=13, d_model=10, n_layers=1, n_heads=5, d_ff=7, context=9)    # no two sizes are equal
    letters = {"T": "T", "13": "V", "10": "C", "5": "H", "2": "D", "7": "F"}
    found = {}
    for order, norm_first in ("post", False), ("pre", True):
        anatomy = parts.from_config(replace(config, norm_first=norm_first))
        found[order] = [{"name": name, "kind": anatomy[name].kind, "shape": [letters[axis] for axis in anatomy[name].shape]}
                        for name in anatomy.order]
    return found


def insert_source(markdown: str) -> str:
    if SOURCE not in markdown:
        return markdown
    path = "docs/" + FOLDER + "model.js"
    return markdown.replace(SOURCE, fence((ROOT / path).read_text(encoding="utf-8").rstrip(), f'.javascript title="{path}"'))


def load(content: str, page) -> str:
    if MARK not in content:
        return content
    def address(name):
        return get_relative_url(FOLDER + name, page.url)
    return (f'<link rel="stylesheet" href="{address("playground.css")}">\n{content}\n'
            + "".join(f'<script defer src="{address(name)}"></script>\n' for name in SCRIPTS))
