"""Figures as files beside the page, one for light and one for dark."""

import base64
import html
import re

INK, DARK_INK = "#24292f", "#dfe2e8"  # INK as in matplotlibrc
FONTS = "-apple-system, BlinkMacSystemFont, 'Segoe UI', Roboto, 'Noto Sans', 'Helvetica Neue', Arial, sans-serif"


def figures(output, alt: str, number: int) -> tuple[str, dict[str, bytes]]:
    """An image output as HTML, and the files it needs."""
    name, alt = f"figure-{number}", html.escape(alt, quote=True)
    if png := output.data.get("image/png"):
        return f'<img src="{name}.png" alt="{alt}" loading="lazy">', {f"{name}.png": base64.b64decode(png)}
    svg = _lean(output.data["image/svg+xml"])
    width, height = (round(float(size) * 96 / 72) for size in re.findall(r'(?:width|height)="([\d.]+)pt"', svg)[:2])
    # Lines in plain black follow the ink; text in plain black does not: it is written over colours.
    dark = svg.replace(INK, DARK_INK).replace("stroke: #000000", f"stroke: {DARK_INK}")
    # Material hides one of the two by the end of its address; what is hidden is not loaded (lazy).
    kind = ' class="wide"' if width > 620 else ""  # on a phone it scrolls instead of shrinking to nothing
    tag = '<img src="{0}.svg#only-{1}" alt="{2}" width="{3}" height="{4}" loading="lazy"' + kind + ">"
    both = "".join(tag.format(name if mode == "light" else name + "-dark", mode, alt, width, height)
                   for mode in ("light", "dark"))
    return both, {f"{name}.svg": svg.encode(), f"{name}-dark.svg": dark.encode()}


def _lean(svg: str) -> str:
    """Without Matplotlib's metadata, and with the fonts of the page."""
    svg = svg[svg.index("<svg"):]
    svg = re.sub(r"<metadata>.*?</metadata>\s*", "", svg, flags=re.S)
    # Text was laid out in DejaVu Sans, which is wide: the reader's own font always fits.
    return re.sub(r"('DejaVu Sans'[^;\"]*?sans-serif)", FONTS, svg)
