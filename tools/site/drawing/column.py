"""What stands where: the residual stream from top to bottom, and beside it what is added to it.

A column is drawn from the top down. Parts that the stream goes through stand on it; the sub-layers stand to
its right, and around them the stream passes to the left, in an arc that ends in a "+".
"""

from tools.site.drawing.parts import Anatomy, number
from tools.site.drawing.scene import Plus, Scene

WIDTH, NARROW = 440, 216         # of a column; in a narrow one there is no room for parameters
SPINE, ARC = 48, 17             # where the stream runs, and where it passes a sub-layer
LEFT = 74                       # where begins what stands beside it
ROW, TALL, GAP = 28, 44, 12     # height of a row, of a box of two lines, and the space between two
STYLES = {"Linear": "matrix", "Embedding": "matrix", "LayerNorm": "norm", "HookPoint": "tensor"}


class Column:
    def __init__(self, scene: Scene, parts: Anatomy, x=0.0, y=10.0, width=WIDTH, detail=True, counts=True):
        self.scene, self.parts, self.detail = scene, parts, detail
        self.x, self.y, self.counts = x, y, counts
        self.right, self.rail_x = width - 22 if counts else width - 12, width - 11
        self.shapes = self.right - 108 if counts else self.right - 10       # where shapes end
        self.last = ""          # the part that the stream comes from
        self.rail = None        # where the mask comes down

    def at(self, x, y=0.0):
        return self.x + x, self.y + y

    def stream(self, length: float, target="", arrow=False) -> None:
        """Let the stream run on."""
        self.scene.wire(self.at(SPINE, -0.7), self.at(SPINE, length), style="stream",  # no gap to the last
                        source=self.last, target=target, arrow=arrow)
        self.y += length

    def line(self, name, shape="", count="", left=LEFT, style="name") -> None:
        """A row of words: the name, the shape and the number of parameters, each in its column."""
        self.scene.word(name, *self.at(left, 4.5), style)
        self.scene.word(shape, *self.at(self.shapes, 4.5), "shape", "end")
        if self.counts:
            self.scene.word(count, *self.at(self.right - 10, 4.5), "count", "end")

    def station(self, name: str, gap: float = GAP) -> None:
        """A part on the stream."""
        if gap:
            self.stream(gap, name)
        self.box(name, SPINE - 18, self.right, words=LEFT)
        self.last, self.y = name, self.y + ROW

    def box(self, name, left, right, height=ROW, words=None):
        part = self.parts[name]
        style = STYLES.get(part.kind, "plain")
        in_column = left < self.shapes - 150 and right > self.shapes and height == ROW
        shapes = self.shapes if in_column else right - 10
        return self.scene.box(part, *self.at(left), right - left, height, style,
                              self.x + (words or left + 10), self.x + shapes)

    def mask(self) -> None:
        """One mask for all blocks: it does not stand on the stream, but runs beside it."""
        self.stream(GAP)
        self.box("mask", 246, self.right - 12)
        self.rail = self.at(self.rail_x, ROW / 2)
        self.scene.wire(self.at(self.right - 12, ROW / 2), self.rail, style="mask", arrow=False)
        self.stream(ROW)

    def block(self, name: str) -> None:
        self.stream(GAP)
        top, inner = self.y, len(self.scene.items)
        self.stream(17)
        self.line(name, "", number(self.parts[name].parameters), style="title")
        self.stream(15)
        norm_first = self.parts.before(f"{name}.norm1", f"{name}.sum1")
        self.sublayer(name, "attention", norm_first and "norm1", "sum1", self.attention)
        if not norm_first:
            self.station(f"{name}.norm1", 8)
        self.stream(12)
        self.sublayer(name, "ffn", norm_first and "norm2", "sum2", self.ffn)
        if not norm_first:
            self.station(f"{name}.norm2", 8)
        self.stream(10)
        width = self.rail_x + 7 - 4
        self.scene.box(self.parts[name], self.x + 4, top, width, self.y - top, "block")
        self.scene.items.insert(inner, self.scene.items.pop())      # behind what it holds

    def sublayer(self, block, short, norm, plus, draw) -> None:
        """A sub-layer and the way around it."""
        name, source, split = f"{block}.{short}", self.last, self.y
        middle = (LEFT + self.right) / 2
        entry = (self.x + middle, split)
        if norm:
            self.y += 16
            self.box(f"{block}.{norm}", LEFT, self.right)
            self.scene.wire((self.x + SPINE + 3, split), entry, self.at(middle), source=source,
                            target=f"{block}.{norm}")
            source = f"{block}.{norm}"
            self.y += ROW
            entry = self.at(middle)
            self.y += 12
        result = draw(name, source, entry, bool(norm))
        self.y += 18
        self.scene.wire(self.at(LEFT + 24, -18), self.at(LEFT + 24), self.at(SPINE + 10), source=result,
                        target=f"{block}.{plus}")
        self.scene.wire((self.x + SPINE, split), self.at(ARC, (split - self.y) / 2), self.at(SPINE, -9),
                        style="arc", source=self.last, target=f"{block}.{plus}")
        part = self.parts[f"{block}.{plus}"]
        self.scene.add(Plus(part, *self.at(SPINE)))
        self.line(part.short, part.size, left=LEFT + 36)
        self.last = part.name
        self.y += 9

    def columns(self) -> tuple[list[float], float]:
        """Left edges and width of three boxes side by side."""
        width = (self.right - LEFT - 32) / 3
        return [LEFT + 8 + i * (width + 8) for i in range(3)], width

    def attention(self, name, source, entry, has_norm) -> str:
        if not self.detail:
            return self.closed(name, source, entry, has_norm)
        top, holder = self.y, len(self.scene.items)
        (a, b, c), width = self.columns()
        centres = [left + width / 2 for left in (a, b, c)]
        pair, middle = (a + b + width) / 2, b + width / 2       # middle of two columns, and of all
        self.enter(entry, centres[2], has_norm)
        for centre, left, inner, tensor in zip(centres, (a, b, c), ("query", "key", "value"), "qkv"):
            self.down(centre, 14, source, f"{name}.{inner}", -14)
            self.box(f"{name}.{inner}", left, left + width, TALL)
            self.down(centre, 12, f"{name}.{inner}", f"{name}.{tensor}", TALL)
        self.y += TALL + 12
        for left, tensor in zip((a, b, c), "qkv"):
            self.box(f"{name}.{tensor}", left, left + width)
        self.y += ROW
        values = self.at(centres[2])                            # v waits for the weights
        for centre, tensor in zip(centres[:2], "qk"):
            self.down(centre, 20, f"{name}.{tensor}", f"{name}.scores")
        self.scene.word("q kᵀ / √D", *self.at(pair, 14), "formula", "middle")
        self.y += 20
        self.box(f"{name}.scores", a, b + width)
        self.y += ROW
        self.down(pair, 44, f"{name}.scores", f"{name}.weights")
        if self.rail:
            self.scene.wire(self.rail, self.at(self.rail_x, 16), self.at(pair + 8, 16), style="mask",
                            source="mask", target=f"{name}.weights")
            self.rail = self.at(self.rail_x, 16)
        self.scene.add(Plus(None, *self.at(pair, 16), "mask"))
        self.scene.word("+ mask", *self.at(pair - 14, 20), "formula mask-word", "end")
        self.scene.word("softmax", *self.at(pair - 14, 37), "formula", "end")
        self.y += 44
        self.box(f"{name}.weights", a, b + width)
        self.y += ROW
        self.down(pair, 20, f"{name}.weights", f"{name}.mix")
        self.scene.wire(values, self.at(centres[2], 20), source=f"{name}.v", target=f"{name}.mix")
        self.scene.word("weights v", *self.at((pair + centres[2]) / 2, 14), "formula", "middle")
        self.y += 20
        self.box(f"{name}.mix", a, c + width)
        self.y += ROW
        self.down(middle, 14, f"{name}.mix", f"{name}.output")
        self.y += 14
        self.box(f"{name}.output", a, c + width)
        self.y += ROW + 8
        self.frame(holder, name, top)
        return f"{name}.output"

    def ffn(self, name, source, entry, has_norm) -> str:
        if not self.detail:
            return self.closed(name, source, entry, has_norm)
        top, holder = self.y, len(self.scene.items)
        (a, b, c), width = self.columns()
        self.enter(entry, a + width / 2, has_norm)
        self.down(a + width / 2, 14, source, f"{name}.up", -14)
        for left, inner in zip((a, b, c), ("up", "hidden", "down")):
            self.box(f"{name}.{inner}", left, left + width, TALL)
        self.y += TALL / 2
        self.scene.wire(self.at(a + width), self.at(b), source=f"{name}.up", target=f"{name}.hidden")
        self.scene.wire(self.at(b + width), self.at(c), source=f"{name}.hidden", target=f"{name}.down")
        self.scene.word("GELU", *self.at(b + width - 10, -4), "formula", "end")
        self.y += TALL / 2
        self.scene.wire(self.at(c + width / 2), self.at(c + width / 2, 11), self.at(LEFT + 24, 11),
                        self.at(LEFT + 24, 22), arrow=False)
        self.y += 20
        self.frame(holder, name, top)
        return f"{name}.down"

    def down(self, x, length, source, target, start=0.0) -> None:
        self.scene.wire(self.at(x, start), self.at(x, start + length), source=source, target=target)

    def closed(self, name, source, entry, has_norm) -> str:
        """A sub-layer as one box: its inside is drawn elsewhere."""
        self.y = entry[1] + (12 if has_norm else 20)
        middle, part = (LEFT + self.right) / 2, self.parts[name]
        corner = [] if has_norm else [(self.x + SPINE + 3, entry[1])]
        self.scene.wire(*corner, entry, self.at(middle), source=source, target=name)
        self.scene.box(part, *self.at(LEFT), self.right - LEFT, TALL, "closed",
                       *self.at(LEFT + 10)[:1], self.x + self.shapes)
        self.y += TALL
        return name

    def enter(self, entry, until, has_norm) -> None:
        """From the stream, or from the norm above, to the line that feeds the first boxes."""
        self.y += 32
        start, bend = (self.x + SPINE + 3, entry[1]), (self.x + SPINE + 13, entry[1])
        if has_norm:
            self.scene.wire(entry, (entry[0], self.y), arrow=False)
            first = self.columns()[0][0] + self.columns()[1] / 2
            self.scene.wire(self.at(first), self.at(max(until, entry[0] - self.x)), arrow=False)
        else:
            self.scene.wire(start, bend, self.at(SPINE + 13), self.at(until), arrow=False)
        self.y += 14

    def frame(self, holder, name, top) -> None:
        """Around what was drawn since `holder`, and behind it."""
        part, below = self.parts[name], self.y
        words = len(self.scene.items)
        self.scene.box(part, self.x + LEFT, top, self.right - LEFT, below - top, "sublayer")
        self.y = top + 14
        self.line(part.name.split(".", 2)[2], "", number(part.parameters), LEFT + 10, "title")
        self.y = below
        new = self.scene.items[words:]
        del self.scene.items[words:]
        self.scene.items[holder:holder] = new
