"""Draw docs/assets/cover.svg: what one head of the shipped model looks at while it reads a sentence.

    python -m tools.measure.cover       (after `make weights`, to show the new weights)
"""

from pathlib import Path

from tinyllm import TinyLLM, encode, trace

SENTENCE, LAYER, HEAD = "every symbol has read the past", 1, 0
COVER = Path(__file__).resolve().parents[2] / "docs" / "assets" / "cover.svg"
SANS = "-apple-system, BlinkMacSystemFont, 'Segoe UI', Roboto, 'Noto Sans', 'Helvetica Neue', Arial, sans-serif"
MONO = "ui-monospace, SFMono-Regular, Menlo, Consolas, monospace"
COLOURS = [(20, 62, 72), (18, 110, 120), (46, 164, 150), (150, 214, 160), (247, 236, 170)]  # dark to light
WIDTH, HEIGHT, CELL, TOP = 1200, 440, 13.2, 22


def colour(weight):
    position = min(weight, 0.9999) * (len(COLOURS) - 1)
    low, part = COLOURS[int(position)], position % 1
    return "#" + "".join(f"{round(a + (b - a) * part):02x}" for a, b in zip(low, COLOURS[int(position) + 1]))


def draw(weights, numbers):
    left = WIDTH - 60 - len(SENTENCE) * CELL
    yield f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img">'
    yield f"<title>TinyLLM: what a head of the model looks at while it reads “{SENTENCE}”</title>"
    yield f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#0c2f38"/>'
    for row, symbol in enumerate(SENTENCE):
        y, largest = TOP + row * CELL, max(weights[row])
        for column in range(row + 1):
            fill = colour((weights[row][column] / largest) ** 0.6)  # small weights are to be seen too
            yield (f'<rect x="{left + column * CELL:.1f}" y="{y:.1f}" width="{CELL - 1.6:.1f}" '
                   f'height="{CELL - 1.6:.1f}" rx="2" fill="{fill}"/>')
        yield (f'<text x="{left + (row + 1) * CELL + 4:.1f}" y="{y + 9.4:.1f}" font-family="{MONO}" '
               f'font-size="11.5" fill="#bfe3dc">{symbol}</text>')
    yield (f'<g font-family="{SANS}"><text x="70" y="196" font-size="92" font-weight="700" letter-spacing="-3" '
           'fill="#fff">TinyLLM</text><g font-size="29" fill="#bfe3dc">'
           f'<text x="74" y="252">A language model of {numbers:,} numbers:</text>'
           '<text x="74" y="292">visible, measurable, open to intervention.</text></g></g></svg>')


if __name__ == "__main__":
    model = TinyLLM.pretrained()
    numbers = sum(p.numel() for p in model.parameters())
    with trace(model) as log:
        model(encode(SENTENCE)[None])
    weights = log[f"blocks.{LAYER}.attention.weights"][0, HEAD].tolist()     # (T, T)
    COVER.write_text("\n".join(draw(weights, numbers)) + "\n", encoding="utf-8")
