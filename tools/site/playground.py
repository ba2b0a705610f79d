"""The playground: the trained model for the browser, and its scripts on the pages that use it."""

import base64
from pathlib import Path

from mkdocs.structure.files import File
from mkdocs.utils import get_relative_url

from tools.site.pieces import fence

ROOT = Path(__file__).resolve().parents[2]
FOLDER = "assets/playground/"
SCRIPTS = ("model.js", "plan.js", "inspect.js", "map.js", "stage.js", "ui.js")
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
            File.generated(config, FOLDER + "pretrained.js", content=script)]


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
