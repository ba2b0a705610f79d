"""A scene as SVG, in light or dark. Words are text, in the fonts of the reader's system."""

import math
from html import escape

from tools.site.drawing.parts import number
from tools.site.drawing.scene import Box, Plus, Scene, Tile, Wire, Word

SANS = ("-apple-system, BlinkMacSystemFont, 'Segoe UI', Roboto, 'Noto Sans', 'Helvetica Neue', Arial, "
        "sans-serif")
MONO = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace"
INKS = {
    "light": dict(paper="#ffffff", ink="#24292f", soft="#57606a", stream="#0b7f8a", band="#9fd0d4",
                  matrix="#dcefef", matrix_edge="#6aa9ae", norm="#fbefd6", norm_edge="#cfa353",
                  tensor="#ffffff", tensor_edge="#b4bcc6", block="#f4f6f7", block_edge="#e1e5e9",
                  sublayer="#ffffff", sublayer_edge="#d5dae0", mask="#6f51b5",
                  back="#c2410c"),
    "dark": dict(paper="#1e2129", ink="#dfe2e8", soft="#a3a9b5", stream="#5ec4cc", band="#2f747b",
                 matrix="#1f3d43", matrix_edge="#478d94", norm="#3d3420", norm_edge="#9a7c40",
                 tensor="#1e2129", tensor_edge="#5b6373", block="#262a34", block_edge="#343945",
                 sublayer="#1e2129", sublayer_edge="#3c4250", mask="#b6a3f2",
                 back="#ff9a62"),
}
STYLE = """
text {{ font: 12px {sans}; fill: {soft}; }}
.name {{ font: 600 13px {mono}; fill: {ink}; }}
.title {{ font: 600 12.5px {mono}; fill: {soft}; }}
.shape {{ fill: {ink}; }}
.formula {{ font-size: 11.5px; fill: {soft}; }}
.mono, .symbol {{ font: 12.5px {mono}; fill: {ink}; }}
.loud {{ font: 600 13px {sans}; fill: {ink}; }}
.back-word {{ font: 600 12px {sans}; fill: {back}; }}
.back-small {{ font-size: 11px; fill: {back}; }}
.mask-word {{ fill: {mask}; }}
path {{ fill: none; }}
.stream, .arc {{ stroke: {band}; stroke-width: 6; }}
.flow {{ stroke: {soft}; stroke-width: 1.3; }}
.mask {{ stroke: {mask}; stroke-width: 1.3; stroke-dasharray: 2 3; }}
.back {{ stroke: {back}; stroke-width: 2.2; }}
.faint {{ stroke: {tensor_edge}; stroke-width: 1; }}
"""
BOXES = {"matrix": 4, "norm": 4, "tensor": 14, "plain": 4, "sublayer": 6, "block": 10, "closed": 6}


def draw(scene: Scene, mode: str) -> str:
    inks = INKS[mode]
    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{scene.width:g}" height="{scene.height:g}" '
             f'viewBox="0 0 {scene.width:g} {scene.height:g}" role="img" aria-labelledby="title desc">',
             f'<title id="title">{escape(scene.title)}</title>',
             f'<desc id="desc">{escape(scene.words)}</desc>',
             f"<style>{STYLE.format(sans=SANS, mono=MONO, **inks)}</style>",
             f'<rect width="100%" height="100%" rx="8" fill="{inks["paper"]}"/>']
    for item in scene.items:
        lines.extend(DRAW[type(item)](item, inks))
    return "\n".join([*lines, "</svg>"]) + "\n"


def box(item: Box, inks):
    part, style = item.part, item.style
    kind = "block" if style == "block" else "sublayer" if style in ("sublayer", "plain", "closed") else style
    radius = BOXES[style]
    shape = (f'<rect x="{item.x:g}" y="{item.y:g}" width="{item.width:.4g}" height="{item.height:g}" '
             f'rx="{radius:g}" fill="{inks[kind]}" stroke="{inks[kind + "_edge"]}"/>')
    if not part:                # in the legend
        yield shape
        return
    words = f"{part.name}: {part.kind}({part.sizes}), returns {part.size}" + \
        f", {part.parameters:,} parameters" * bool(part.parameters)
    yield f'<g data-part="{escape(part.name)}"><title>{escape(words)}</title>{shape}'
    if style not in ("block", "sublayer"):
        yield from label(item)
    yield "</g>"


def label(item: Box):
    """Name, shape and parameters: in one line, or in two if the box is high."""
    part, right = item.part, item.x + item.width - 10
    count = number(part.parameters) if part.parameters else ""
    name = part.name.split(".", 2)[-1] if item.style == "closed" else part.short
    if item.height > 36:
        yield text(name, item.words, item.y + 18, "name")
        yield text(part.size, item.words, item.y + item.height - 9, "shape")
        if item.style != "closed":
            count = number(part.parameters, 100_000) if part.parameters else ""
            yield text(count, right, item.y + 18, "count", "end")
        return
    y = item.y + item.height / 2 + 4.5
    yield text(name, item.words, y, "name")
    yield text(part.size, item.shapes, y, "shape", "end")
    if item.shapes < right - 30:
        yield text(count, right, y, "count", "end")


def text(words, x, y, style="word", anchor="start") -> str:
    if not words:
        return ""
    at = "" if anchor == "start" else f' text-anchor="{anchor}"'
    return f'<text class="{style}" x="{x:.5g}" y="{y:.5g}"{at}>{escape(words)}</text>'


def wire(item: Wire, inks):
    d = bow(*item.points) if item.style.startswith("arc") else rounded(item.points, 7)
    ends = f' data-from="{item.source}" data-to="{item.target}"' if item.source and item.target else ""
    yield f'<path class="{item.style}" d="{d}"{ends}/>'
    if item.arrow and item.style != "arc":
        strong = item.style in ("arc back", "back", "stream")
        ink = inks[item.style.split()[-1] if strong or item.style == "mask" else "soft"]
        yield arrow(item.points[-2], item.points[-1], ink, 4 if strong else 3)


def bow(start, side, end) -> str:
    """Out to the side, along, and back."""
    bend = math.copysign(min(40, abs(end[1] - start[1]) / 2), end[1] - start[1])
    (x, top), (out, _), (back, below) = start, side, end
    return (f"M{x:.5g} {top:.5g}C{x:.5g} {top + bend * .6:.5g} {out:.5g} {top + bend * .4:.5g} {out:.5g} "
            f"{top + bend:.5g}V{below - bend:.5g}C{out:.5g} {below - bend * .4:.5g} {back:.5g} "
            f"{below - bend * .6:.5g} {back:.5g} {below:.5g}")


def rounded(points, radius) -> str:
    """A line through points, its corners rounded."""
    path = f"M{points[0][0]:.5g} {points[0][1]:.5g}"
    for before, corner, after in zip(points, points[1:], points[2:]):
        r = min(radius, math.dist(before, corner) / 2, math.dist(corner, after) / 2)
        (ax, ay), (bx, by) = towards(corner, before, r), towards(corner, after, r)
        path += f"L{ax:.5g} {ay:.5g}Q{corner[0]:.5g} {corner[1]:.5g} {bx:.5g} {by:.5g}"
    return path + f"L{points[-1][0]:.5g} {points[-1][1]:.5g}"


def towards(one, other, length):
    share = length / (math.dist(one, other) or 1)
    return one[0] + (other[0] - one[0]) * share, one[1] + (other[1] - one[1]) * share


def arrow(before, end, ink, size) -> str:
    angle = math.atan2(end[1] - before[1], end[0] - before[0])
    corners = [(end[0] + size * 1.9 * math.cos(angle + turn), end[1] + size * 1.9 * math.sin(angle + turn))
               for turn in (math.pi - 0.5, math.pi + 0.5)]
    d = "L".join(f"{x:.5g} {y:.5g}" for x, y in (end, *corners))
    return f'<path d="M{d}Z" style="fill:{ink}"/>'


def plus(item: Plus, inks):
    ink, radius = inks[item.style], 9 if item.style == "stream" else 7
    name = item.part.name if item.part else ""
    if name:
        yield (f'<g data-part="{name}"><title>{name}: {item.part.kind}({item.part.sizes}), returns '
               f'{item.part.size}</title>')
    x, y, arm = item.x, item.y, radius - 4
    yield (f'<circle cx="{x:g}" cy="{y:g}" r="{radius}" fill="{inks["paper"]}" stroke="{ink}" '
           'stroke-width="1.6"/>')
    yield (f'<path d="M{x - arm:g} {y:g}H{x + arm:g}M{x:g} {y - arm:g}V{y + arm:g}" '
           f'style="stroke:{ink};stroke-width:1.6"/>')
    if name:
        yield "</g>"


def tile(item: Tile, inks):
    """Cells; of one that is lit, the colour is that of a matrix, a norm or the mask."""
    wide, high = item.width / item.columns, item.height / item.rows
    frame = f'x="{item.x:g}" y="{item.y:g}" width="{item.width:g}" height="{item.height:g}"'
    yield f'<rect {frame} fill="{inks["paper"]}"/>'
    for (row, column), ink in item.lit.items():
        yield (f'<rect x="{item.x + column * wide:.5g}" y="{item.y + row * high:.5g}" width="{wide:.5g}" '
               f'height="{high:.5g}" fill="{inks[ink]}"/>')
    lines = "".join(f"M{item.x + i * wide:.5g} {item.y:g}v{item.height:g}" for i in range(1, item.columns))
    lines += "".join(f"M{item.x:g} {item.y + i * high:.5g}h{item.width:g}" for i in range(1, item.rows))
    yield f'<path d="{lines}" style="stroke:{inks["tensor_edge"]};stroke-width:.6"/>'
    yield f'<rect {frame} fill="none" stroke="{inks["soft"]}"/>'


def word(item, inks):
    yield text(item.text, item.x, item.y, item.style, item.anchor)


DRAW = {Box: box, Wire: wire, Plus: plus, Tile: tile, Word: word}
