"""One attention head: each tensor as a rectangle, T rows high, with its shape."""

from tools.site.drawing.column import TALL, WIDTH
from tools.site.drawing.parts import Anatomy
from tools.site.drawing.scene import Plus, Scene, Tile

NAME = "blocks.0.attention"
TEXT = "the q"                  # what the picture shows; the shapes say T
ROW = 13                        # height of a symbol's row
HIGH = len(TEXT) * ROW          # and of a tensor
FULL = 104                      # width of d_model
CELL = 16                       # of the squares
SIDE = len(TEXT) * CELL
LEFTS = 24, 168, 312            # of q, k and v,
CENTRES = 76, 220, 364
SQUARES = 40, 178, 316          # of scores, mask and weights


def head(parts: Anatomy) -> Scene:
    scene = Scene("The data flow of one attention head, with its shapes",
                  "From top to bottom: x; the matrices query, key and value; q, k and v, of whose columns "
                  "this head takes its share; scores, one row for each symbol that looks and one column "
                  "for each that is looked at; plus the mask, which is minus infinity to the right of the "
                  "diagonal; after softmax the weights, each row of which sums to one; with v they give "
                  "the mix; the mixes of all heads, side by side, go through the matrix output and are "
                  "added to the residual stream.", WIDTH)
    here = {name.rpartition(".")[2]: part for name, part in parts.items() if name.startswith(NAME + ".")}
    norm_first = parts.before("blocks.0.norm1", f"{NAME}.query")
    source = parts["blocks.0.norm1" if norm_first else "positions"]
    vectors = project(scene, here, source)
    squares = look(scene, here, vectors)
    gather(scene, here, vectors, squares)
    return scene


def project(scene, here, source) -> float:
    """x, three matrices, and q, k and v. Returns how far down that is."""
    y = 24
    tensor(scene, LEFTS[1], y, "x", source.size)
    letters(scene, LEFTS[1] - 8, y, ROW)
    bus = y + HIGH + 16
    scene.wire((CENTRES[1], y + HIGH), (CENTRES[1], bus), arrow=False)
    outer = (CENTRES[0], bus), (CENTRES[2], bus)
    scene.wire((CENTRES[0], bus + 14), *outer, (CENTRES[2], bus + 14), arrow=False)
    y = bus + 14
    for centre, left, matrix, vector in zip(CENTRES, LEFTS, ("query", "key", "value"), "qkv"):
        start = centre, bus if centre == CENTRES[1] else y - 6
        wire(scene, start, (centre, y), source=source.name, target=here[matrix].name)
        scene.box(here[matrix], left, y, FULL, TALL, "matrix", left + 10)
        wire(scene, (centre, y + TALL), (centre, y + TALL + 34), source=matrix, target=vector)
    y += TALL + 34
    heads, _, width = here["q"].shape
    for left, vector in zip(LEFTS, "qkv"):
        tensor(scene, left, y, vector, of_one(here[vector]), int(heads))
    scene.word(f"{heads} heads side by side:", LEFTS[1] + 28, y + HIGH + 17, "formula")
    scene.word(f"this one takes the first {width} columns", LEFTS[1] + 28, y + HIGH + 32, "formula")
    return y + HIGH


def look(scene, here, above) -> float:
    """Scores, mask and weights: squares of T × T."""
    y, middle = above + 104, above + 104 + SIDE / 2
    share = FULL / int(here["q"].shape[0]) / 2                  # to the middle of this head's columns
    q, k, right = LEFTS[0] + share, LEFTS[1] + share, SQUARES[0] + SIDE - 8
    wire(scene, (q, above), (q, y - 36), source="q", target="scores")
    wire(scene, (k, above), (k, y - 56), (right, y - 56), (right, y - 36), source="k", target="scores")
    scene.word("q kᵀ / √D", q + 8, y - 62, "formula")
    count = range(len(TEXT))
    past = {(i, j): "matrix" for i in count for j in count if j <= i}
    future = {(i, j): "mask" for i in count for j in count if j > i}
    all_cells = dict.fromkeys([*past, *future], "matrix")
    for left, name, lit in zip(SQUARES, ("scores", "mask", "weights"), (all_cells, future, past)):
        scene.word(name, left, y - 22, "name")
        scene.word(of_one(here["scores"]), left, y - 7, "shape")
        scene.add(Tile(left, y, SIDE, SIDE, len(TEXT), len(TEXT), lit))
    letters(scene, SQUARES[0] - 8, y, CELL)
    for left in SQUARES[0], SQUARES[2]:
        for i, letter in enumerate(TEXT):
            x = left + CELL * i + CELL / 2
            scene.word(letter.replace(" ", "␣"), x, y + SIDE + 14, "symbol", "middle")
    scene.add(Plus(None, (SQUARES[0] + SIDE + SQUARES[1]) / 2, middle, "mask"))
    wire(scene, (SQUARES[1] + SIDE, middle), (SQUARES[2], middle), source="scores", target="weights")
    scene.word("softmax", (SQUARES[1] + SIDE + SQUARES[2]) / 2, middle - 8, "formula", "middle")
    scene.word("−∞ to the right of", SQUARES[1], y + SIDE + 15, "formula mask-word")
    scene.word("the diagonal, else 0", SQUARES[1], y + SIDE + 29, "formula mask-word")
    return y + SIDE


def gather(scene, here, vectors, squares) -> None:
    """Mix and output, from right to left."""
    y, middle = squares + 64, squares + 64 + HIGH / 2
    level, edge, down = vectors - HIGH / 2, WIDTH - 8, SQUARES[2] + SIDE / 2
    wire(scene, (LEFTS[2] + FULL, level), (edge, level), (edge, middle), (SQUARES[2] + FULL, middle),
         source="v", target="mix")
    wire(scene, (down, squares + 20), (down, y - 22), source="weights", target="mix")
    scene.word("weights v", down + 8, y - 30, "formula")
    tensor(scene, SQUARES[2], y, "mix", of_one(here["mix"]), int(here["mix"].shape[0]))
    wire(scene, (SQUARES[2], middle), (LEFTS[1] + FULL, middle), source="mix", target="output")
    scene.box(here["output"], LEFTS[1], middle - TALL / 2, FULL, TALL, "matrix", LEFTS[1] + 9)
    scene.wire((LEFTS[1], middle), (LEFTS[0] + FULL, middle))
    tensor(scene, LEFTS[0], y, "", here["output"].size)
    scene.wire((CENTRES[0], y + HIGH), (CENTRES[0], y + HIGH + 24), style="stream")
    scene.word("added to the residual stream", CENTRES[0] + 16, y + HIGH + 20, "formula")
    scene.height = y + HIGH + 34


def of_one(part) -> str:
    """The shape of one head's share: without the axis H."""
    return " × ".join(part.shape[1:])


def wire(scene, *points, source, target) -> None:
    """Between parts of this attention, or from the one before it."""
    names = (name if "." in name or name == "positions" else f"{NAME}.{name}" for name in (source, target))
    scene.wire(*points, source=next(names), target=next(names))


def tensor(scene, x, y, name, size, heads=0) -> None:
    """One row for each symbol; if heads stand side by side in it, the first is lit."""
    lit = {(row, 0): "matrix_edge" if heads else "block" for row in range(len(TEXT))}
    scene.add(Tile(x, y, FULL, HIGH, len(TEXT), heads or 1, lit))
    scene.word(name, x, y - 8, "name")
    scene.word(size, x + FULL, y - 8, "shape", "end")


def letters(scene, x, y, row) -> None:
    for i, letter in enumerate(TEXT):
        scene.word(letter.replace(" ", "␣"), x, y + row * i + row - 2.5, "symbol", "end")
