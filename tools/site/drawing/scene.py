"""What a drawing is made of, each thing at its place."""

from dataclasses import dataclass, field

from tools.site.drawing.parts import Part


@dataclass(frozen=True)
class Box:
    """A part: x, y is its upper left corner."""
    part: Part
    x: float
    y: float
    width: float
    height: float
    style: str          # matrix, norm, tensor, plain: what it is; sublayer, block: what holds others
    words: float = 0    # where its name begins
    shapes: float = 0   # and where its shape ends


@dataclass(frozen=True)
class Wire:
    """A tensor on its way from one part to another."""
    points: tuple[tuple[float, float], ...]
    style: str          # stream, flow, mask, back
    source: str = ""
    target: str = ""
    arrow: bool = True


@dataclass(frozen=True)
class Plus:
    """Where two tensors are added; the sum has a name."""
    part: Part | None
    x: float
    y: float
    style: str = "stream"


@dataclass(frozen=True)
class Word:
    text: str
    x: float
    y: float
    style: str = "word"     # word, name, title, formula, symbol …
    anchor: str = "start"


@dataclass(frozen=True)
class Tile:
    """A tensor as a rectangle of cells, some of them lit: (row, column) -> the name of a colour."""
    x: float
    y: float
    width: float
    height: float
    rows: int
    columns: int
    lit: dict


@dataclass
class Scene:
    title: str
    words: str                                  # what the picture shows, for those who do not see it
    width: float = 0
    height: float = 0
    items: list = field(default_factory=list)

    def add(self, item):
        self.items.append(item)
        return item

    def box(self, part, x, y, width, height, style, words=0.0, shapes=0.0):
        return self.add(Box(part, x, y, width, height, style, words, shapes))

    def wire(self, *points, style="flow", source="", target="", arrow=True):
        return self.add(Wire(points, style, source, target, arrow))

    def word(self, text, x, y, style="word", anchor="start"):
        return self.add(Word(text, x, y, style, anchor))

    def all(self, kind) -> list:
        return [item for item in self.items if isinstance(item, kind)]

    def drawn(self) -> list[Part]:
        """The parts of the picture, in the order in which they are read: down, then to the right."""
        places = [(item.y + (getattr(item, "height", 0)) / 2, item.x, item.part) for item in self.items
                  if isinstance(item, Box | Plus) and item.part]
        return [part for _, _, part in sorted(places, key=lambda place: place[:2])]
