"""Two small pictures: windows and their targets; the loop of generation."""

from tools.site.drawing.column import WIDTH
from tools.site.drawing.parts import Anatomy
from tools.site.drawing.scene import Scene, Tile

CELL = 30


def row(scene: Scene, text: str, x: float, y: float, ink: str = "", lit=None, cell=CELL) -> None:
    """Symbols in cells, side by side."""
    colours = {(0, i): ink for i in range(len(text)) if ink} if lit is None else lit
    scene.add(Tile(x, y, len(text) * cell, cell, 1, len(text), colours))
    for i, letter in enumerate(text):
        scene.word(letter.replace(" ", "␣"), x + (i + 0.5) * cell, y + cell / 2 + 4.5, "symbol", "middle")


def windows(text: str = "the question", start: int = 1, length: int = 8) -> Scene:
    """A window of the text, and the same one symbol later."""
    scene = Scene("A window of the text, and its targets: the same, shifted by one",
                  f"Three rows of symbols. The text: {text}. The inputs, a window of {length} of its "
                  "symbols. Below, the targets: the window that begins one symbol later, so that below "
                  "each symbol stands the one that follows it in the text.", WIDTH, 176)
    left, wide = 68, CELL * length
    window = left + start * CELL
    lit = {(0, i): "matrix" for i in range(start, start + length)}
    for y, words in (25, "text"), (89, "inputs"), (149, "targets"):
        scene.word(words, left - 10, y + 4, "loud", "end")
    row(scene, text, left, 10, lit=lit)
    for x in window, window + wide:
        scene.wire((x, 44), (x, 70), style="faint", arrow=False)
    scene.word(f"T = {length} symbols", window + wide / 2, 61, "formula", "middle")
    row(scene, text[start:start + length], window, 74, "matrix")
    row(scene, text[start + 1:start + length + 1], window, 134, "norm")
    for i in range(1, length + 1):              # the same symbol, one place to the left
        begin = (window + (i + 0.42) * CELL, 105)
        if i == length:
            begin = (begin[0] + 3, 41)
            scene.wire(begin, (begin[0], 112), (window + (i - 0.38) * CELL, 133))
        else:
            scene.wire(begin, (window + (i - 0.38) * CELL, 133))
    return scene


def loop(parts: Anatomy, prompt: str = "the q", drawn: str = "u") -> Scene:
    """One symbol is drawn, appended, and the model asked again."""
    symbols = parts["head"].shape[-1]
    scene = Scene("The loop of generation",
                  "A circle. The ids so far go into the model, of whose logits only the last row is needed. "
                  "With temperature and top-k these become probabilities; one symbol is drawn from them, "
                  "appended to the ids, and the circle begins again.", WIDTH, 196)
    row(scene, prompt, 12, 34, "matrix", cell=26)
    row(scene, drawn, 12 + 26 * len(prompt), 34, "norm", cell=26)
    scene.word("ids so far", 12, 24, "loud")
    end = 12 + 26 * (len(prompt) + 1)
    scene.wire((end, 47), (206, 47))
    frame(scene, 206, 24, 92, 46, "model", "next_logits", "matrix")
    scene.wire((298, 47), (336, 47))
    scene.add(Tile(338, 38, 90, 18, 1, 15, {(0, i): "matrix" for i in range(15)}))
    scene.word("logits of the", 428, 14, "word", "end")
    scene.word(f"last position: {symbols}", 428, 28, "word", "end")
    scene.wire((383, 56), (383, 120))
    scene.word("÷ temperature,", 376, 85, "formula", "end")
    scene.word("top-k, softmax", 376, 100, "formula", "end")
    heights = (3, 6, 2, 4, 3, 5, 2, 34, 3, 4, 8, 2, 5, 3, 2)
    for i, height in enumerate(heights):
        ink = "norm" if height == max(heights) else "matrix"
        scene.add(Tile(338 + 6 * i, 158 - height, 6, height, 1, 1, {(0, 0): ink}))
    scene.word(f"{symbols} probabilities", 428, 176, "word", "end")
    scene.wire((336, 146), (250, 146))
    scene.word("draw one", 293, 138, "formula", "middle")
    row(scene, drawn, 222, 133, "norm", cell=26)
    corner = 12 + 26 * (len(prompt) + 0.5)
    scene.wire((222, 146), (corner, 146), (corner, 62))
    scene.word("append it,", corner - 8, 104, "formula", "end")
    scene.word("and ask again", corner - 8, 119, "formula", "end")
    return scene


def frame(scene, x, y, width, height, name, words, ink) -> None:
    scene.add(Tile(x, y, width, height, 1, 1, {(0, 0): ink}))
    scene.word(name, x + width / 2, y + 19, "name", "middle")
    scene.word(words, x + width / 2, y + 36, "formula", "middle")
