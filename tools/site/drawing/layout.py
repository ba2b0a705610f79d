"""The pictures of the whole model and of a block."""

from tools.site.drawing import column
from tools.site.drawing.column import Column
from tools.site.drawing.parts import Anatomy, number
from tools.site.drawing.scene import Box, Plus, Scene, Wire

BETWEEN = 20            # from one column to the next


def in_words(parts: Anatomy) -> str:
    blocks = parts.config.n_layers
    return (f"Ids of T symbols go through embedding and positions, through {blocks} "
            f"block{'s' * (blocks > 1)} and the output layer head. In each block attention and the "
            "feed-forward network are added to the residual stream, which passes them in an arc that ends in "
            "a plus; ")


def whole(parts: Anatomy, columns: int = 1) -> Scene:
    """Every part of the model, in the order in which it computes."""
    total = sum(part.parameters for name, part in parts.items() if "." not in name and name != "blocks")
    total += sum(parts[f"blocks.{i}"].parameters for i in range(parts.config.n_layers))
    norms = "before" if "norm" in parts else "after"
    scene = Scene("TinyLLM, every part with its name, its shape and its parameters", in_words(parts) +
                  f"a LayerNorm stands {norms} each. {number(total)} parameters in all.")
    blocks = range(parts.config.n_layers)
    shares = [blocks[len(blocks) * i // columns:len(blocks) * (i + 1) // columns] for i in range(columns)]
    pens = [Column(scene, parts, i * (column.WIDTH + BETWEEN), 30 if i else 10) for i in range(columns)]
    begin(pens[0])
    mask = pens[0].rail
    for pen, share in zip(pens, shares):
        if pen is not pens[0]:
            follow(pen, before, mask)
        for block in share:
            pen.block(f"blocks.{block}")
        before = pen
    finish(pen, total)
    scene.width = columns * (column.WIDTH + BETWEEN) - BETWEEN
    scene.height = max(pen.y for pen in pens) + 36
    legend(scene, pen)
    return scene


def begin(pen: Column, shapes="returns", mask=True) -> None:
    pen.scene.word(shapes, *pen.at(pen.shapes, 4.5), anchor="end")
    pen.line("", "", "parameters")
    pen.y += 22
    pen.line("ids", "T")
    pen.y += 8
    pen.scene.wire(pen.at(column.SPINE, -12), pen.at(column.SPINE, 8), target="embedding", source="ids")
    pen.y += 8
    pen.station("embedding", 0)
    pen.station("positions")
    if mask:
        pen.mask()


def follow(pen: Column, before: Column, mask) -> None:
    """The stream goes on at the top of the next column, and the mask too."""
    between, top = pen.x - BETWEEN / 2, 18
    pen.scene.wire(before.at(column.SPINE, -0.7), before.at(column.SPINE, 14), (between, before.y + 14),
                   (between, top), (pen.x + column.SPINE, top), pen.at(column.SPINE), style="stream",
                   arrow=False)
    pen.rail = pen.at(pen.rail_x)
    pen.scene.wire(mask, (mask[0], 6), (pen.rail[0], 6), pen.rail, style="mask", arrow=False)
    pen.last = before.last


def finish(pen: Column, total: int) -> None:
    if "norm" in pen.parts:
        pen.station("norm")
    pen.station("head")
    pen.stream(16, arrow=True)
    pen.y += 10
    pen.line("logits", pen.parts["head"].size, f"{number(total)} in all")
    pen.y += 6


def legend(scene: Scene, pen: Column) -> None:
    """What the colours mean, below what was drawn last."""
    kinds = ("matrix", "matrix"), ("norm", "LayerNorm"), ("tensor", "HookPoint")
    x, y = pen.x + 30, scene.height - 12
    for style, words in kinds:
        scene.box(None, x, y - 8, 16, 12, style)
        scene.word(words, x + 22, y + 2.5)
        x += 38 + 6.6 * len(words)
    scene.wire((x + 2, y - 2), (x + 18, y - 2), style="stream", arrow=False)
    scene.word("residual stream", x + 24, y + 2.5)


def orders(after: Anatomy, before: Anatomy) -> Scene:
    """A block with the LayerNorm after the addition, and one with the LayerNorm before the sub-layer."""
    scene = Scene("Post-norm and pre-norm, from the same code",
                  "Two drawings of a block. Left, post-norm: the LayerNorms stand on the residual stream, "
                  "each after an addition. Right, pre-norm: they stand before attention and before the "
                  "feed-forward network, beside the stream, which runs through untouched; a last LayerNorm, "
                  "norm, stands before the output layer head.")
    for i, (parts, words) in enumerate([(after, "post-norm"), (before, "pre-norm")]):
        pen = Column(scene, parts, i * (column.NARROW + 8), 16, column.NARROW, detail=False, counts=False)
        pen.line(words, left=30, style="loud")
        pen.y += 18
        pen.line(f"norm_first={parts.config.norm_first}", left=30, style="mono")
        pen.y += 16
        pen.block("blocks.0")
        if "norm" in parts:
            pen.stream(26)
            pen.line("after the last block", left=column.LEFT, style="word")
            pen.stream(10)
            pen.station("norm", 0)
        pen.stream(18, arrow=True)
        scene.height = max(scene.height, pen.y + 8)
    scene.width = 2 * column.NARROW + 8
    return scene


def backwards(parts: Anatomy) -> Scene:
    """The way of the gradient: the same drawing, its arrows turned round."""
    scene = Scene("The way back of the gradient, from the loss to the embedding",
                  "The drawing of the model with its arrows turned round. The gradient starts at the loss, "
                  "goes through the output layer head, and up the residual stream. At each plus it is "
                  "copied: one copy takes the arc, unchanged, the other goes through the sub-layer; "
                  "where they "
                  "meet again they are added. It ends in the rows of the embedding whose symbols were read.")
    pen = Column(scene, parts, detail=False, counts=False)
    begin(pen, "shape", mask=False)
    for i in range(parts.config.n_layers):
        pen.block(f"blocks.{i}")
    if "norm" in parts:
        pen.station("norm")
    pen.station("head")
    pen.stream(16)
    pen.y += 12
    pen.line("logits", parts["head"].size)
    pen.y += 10
    scene.wire(pen.at(column.SPINE, -10), pen.at(column.SPINE, 12), style="flow", arrow=False)
    pen.y += 22
    pen.line("loss", "one number", style="loud")
    pen.y += 16
    scene.width, scene.height = column.WIDTH, pen.y
    middle = (column.LEFT + pen.right) / 2 + 4
    words = {"head": "∂L/∂x = ∂L/∂y · W", "embedding": "the rows that were read", "positions": "unchanged"}
    for item in list(scene.items):
        name = item.part.short if hasattr(item, "part") and item.part else ""
        if isinstance(item, Plus) and name:
            scene.word("copied: one for each way", middle, item.y + 4.5, "back-word", "middle")
        elif name.startswith("norm"):
            scene.word("recentred, rescaled", middle, item.y + 18.5, "back-word", "middle")
        elif isinstance(item, Box) and item.style == "closed":
            inside = [inner.rpartition(".")[2] for inner in parts.order
                      if inner.startswith(item.part.name + ".") and parts[inner].kind == "Linear"]
            scene.word("through " + ", ".join(inside[::-1]), pen.right - 10, item.y + 35, "back-small", "end")
        elif name in words:
            scene.word(words[name], middle, item.y + 18.5, "back-word", "middle")
        elif isinstance(item, Wire) and item.style == "arc":
            scene.word("the two are added", pen.right - 10, item.points[0][1] + 4.5, "back-word", "end")
            scene.add(Wire(item.points[::-1], "arc back", item.target, item.source))
        elif isinstance(item, Wire) and item.style == "stream" and item.points[0] != item.points[1]:
            scene.add(Wire(item.points[::-1], "back", item.target, item.source, arrow=bool(item.target)))
        elif isinstance(item, Wire) and item.style == "flow" and item.source != "ids":
            scene.items[scene.items.index(item)] = Wire(item.points[::-1], "back", item.target, item.source)
    return scene
