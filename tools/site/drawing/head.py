"""One attention head: each tensor as a rectangle, T rows high, with its shape."""

from tools.site.drawing.column import TALL, WIDTH
from tools.site.drawing.parts import Anatomy
from tools.site.drawing.scene import Plus, Scene, Tile

TEXT = "the q"                  # what the picture shows; the shapes say T
ROW = 13                        # height of a symbol's row
FULL = 104                      # width of d_model
SIDE = len(TEXT) * 16           # of the squares


def head(parts: Anatomy) -> Scene:
    scene = Scene("The data flow of one attention head, with its shapes",
                  "From top to bottom: x; the matrices query, key and value; q, k and v, of whose columns this "
                  "head takes its share; scores, one row for each symbol that looks and one column for each "
                  "that is looked at; plus the mask, which is minus infinity to the right of the diagonal; "
                  "after softmax the weights, each row of which sums to one; with v they give the mix; the "
                  "mixes of all heads, side by side, go through the matrix output and are added to the "
                  "residual stream.", WIDTH)
    name, high = "blocks.0.attention", len(TEXT) * ROW
    def part(short):
        return parts[f"{name}.{short}"]
    centres, lefts, y = (76, 220, 364), (24, 168, 312), 24

    # x, and the three matrices
    tensor(scene, 168, y, FULL, 1, {(0, 0): "block"})
    letters(scene, 160, y)
    scene.word("x", 168, y - 8, "name")
    scene.word(parts["positions"].size, 272, y - 8, "shape", "end")
    bus = y + high + 16
    scene.wire((220, y + high), (220, bus), arrow=False)
    outer = [(x, bus + dy) for x, dy in ((76, 14), (76, 0), (364, 0), (364, 14))]
    scene.wire(*outer, arrow=False)
    y = bus + 14
    for centre, left, short, small in zip(centres, lefts, ("query", "key", "value"), "qkv"):
        start = centre, bus if centre == centres[1] else y - 6
        scene.wire(start, (centre, y), source="positions", target=f"{name}.{short}")
        scene.box(part(short), left, y, FULL, TALL, "matrix", left + 10)
        scene.wire((centre, y + TALL), (centre, y + TALL + 34), source=f"{name}.{short}",
                   target=f"{name}.{small}")
    y += TALL + 34

    # q, k, v: all heads side by side, and of them this head's share
    heads = int(part("q").shape[0])
    share = " × ".join(part("q").shape[1:])
    for left, small in zip(lefts, "qkv"):
        tensor(scene, left, y, FULL, heads, {(0, 0): "matrix_edge"})
        scene.word(small, left, y - 8, "name")
        scene.word(share, left + FULL, y - 8, "shape", "end")
    scene.word(f"{heads} heads side by side:", lefts[1] + 28, y + high + 17, "formula")
    scene.word(f"this one takes the first {part('q').shape[2]} columns", lefts[1] + 28, y + high + 32,
               "formula")
    below = y + high + 26

    # the squares
    y = below + 78
    scores, mask, weights = 40, 178, 316
    corner = y - 48
    quarter = FULL / heads / 2
    scene.wire((lefts[0] + quarter, below - 26), (lefts[0] + quarter, corner + 12), source=f"{name}.q",
               target=f"{name}.scores")
    scene.wire((lefts[1] + quarter, below - 26), (lefts[1] + quarter, corner - 8),
               (scores + SIDE - 8, corner - 8), (scores + SIDE - 8, corner + 12), source=f"{name}.k", target=f"{name}.scores")
    scene.word("q kᵀ / √D", lefts[0] + quarter + 8, corner - 14, "formula")
    size = " × ".join(part("scores").shape[1:])
    for left, words in (scores, "scores"), (mask, "mask"), (weights, "weights"):
        scene.word(words, left, y - 22, "name")
        scene.word(size, left, y - 7, "shape")
    letters(scene, scores - 8, y, 16)
    count = range(len(TEXT))
    past = {(i, j): "matrix" for i in count for j in count if j <= i}
    future = {(i, j): "mask" for i in count for j in count if j > i}
    scene.add(Tile(scores, y, SIDE, SIDE, len(TEXT), len(TEXT), dict.fromkeys([*past, *future], "matrix")))
    scene.add(Tile(mask, y, SIDE, SIDE, len(TEXT), len(TEXT), future))
    scene.add(Tile(weights, y, SIDE, SIDE, len(TEXT), len(TEXT), past))
    middle = y + SIDE / 2
    scene.add(Plus(None, (scores + SIDE + mask) / 2, middle, "mask"))
    scene.wire((mask + SIDE, middle), (weights, middle), source="mask", target=f"{name}.weights")
    scene.word("softmax", (mask + SIDE + weights) / 2, middle - 8, "formula", "middle")
    for i, letter in enumerate(TEXT):
        scene.word(letter.replace(" ", "␣"), weights + 16 * i + 8, y + SIDE + 14, "symbol", "middle")
        scene.word(letter.replace(" ", "␣"), scores + 16 * i + 8, y + SIDE + 14, "symbol", "middle")
    scene.word("−∞ to the right of", mask, y + SIDE + 15, "formula mask-word")
    scene.word("the diagonal, else 0", mask, y + SIDE + 29, "formula mask-word")

    # mix and output, from right to left
    bottom = y + SIDE + 64
    level, out = below - 26 - high / 2, bottom + high / 2
    scene.wire((lefts[2] + FULL, level), (432, level), (432, out), (weights + FULL, out), source=f"{name}.v", target=f"{name}.mix")
    scene.wire((weights + SIDE / 2, y + SIDE + 20), (weights + SIDE / 2, bottom - 22),
               source=f"{name}.weights", target=f"{name}.mix")
    scene.word("weights v", weights + SIDE / 2 + 8, bottom - 30, "formula")
    tensor(scene, weights, bottom, FULL, heads, {(0, 0): "matrix_edge"})
    scene.word("mix", weights, bottom - 8, "name")
    scene.word(" × ".join(part("mix").shape[1:]), weights + FULL, bottom - 8, "shape", "end")
    scene.wire((weights, out), (168 + FULL, out), source=f"{name}.mix", target=f"{name}.output")
    scene.box(part("output"), 168, out - TALL / 2, FULL, TALL, "matrix", 177)
    scene.wire((168, out), (24 + FULL, out))
    tensor(scene, 24, bottom, FULL, 1, {(0, 0): "block"})
    scene.word(part("output").size, 24 + FULL, bottom - 8, "shape", "end")
    scene.wire((76, bottom + high), (76, bottom + high + 24), style="stream")
    scene.word("added to the residual stream", 92, bottom + high + 20, "formula")
    scene.height = bottom + high + 34
    return scene


def tensor(scene, x, y, width, columns, lit) -> None:
    """One row for each symbol, and columns in `columns` groups."""
    lit = {(row, column): ink for (_, column), ink in lit.items() for row in range(len(TEXT))}
    scene.add(Tile(x, y, width, len(TEXT) * ROW, len(TEXT), columns, lit))


def letters(scene, x, y, row=ROW) -> None:
    for i, letter in enumerate(TEXT):
        scene.word(letter.replace(" ", "␣"), x, y + row * i + row - 2.5, "symbol", "end")
