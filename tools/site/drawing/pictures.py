"""The pictures of the book, and the files they are kept in."""

from pathlib import Path

from tinyllm import Config, TinyLLM
from tools.site.drawing import head, layout, parts, small, svg
from tools.site.drawing.scene import Scene

FOLDER = Path(__file__).resolve().parents[3] / "docs" / "assets" / "drawing"


def scenes() -> dict[str, Scene]:
    model = parts.read(TinyLLM())
    return {"model": layout.whole(model),
            "model-wide": layout.whole(model, columns=2),
            "head": head.head(model),
            "orders": layout.orders(model, parts.read(TinyLLM(Config(norm_first=True)))),
            "gradient": layout.backwards(model),
            "windows": small.windows(),
            "loop": small.loop(model)}


def files() -> dict[str, str]:
    """File name -> SVG, each picture in light and dark."""
    ends = {"light": ".svg", "dark": "-dark.svg"}
    drawn = scenes().items()
    return {name + end: svg.draw(scene, mode) for name, scene in drawn for mode, end in ends.items()}
