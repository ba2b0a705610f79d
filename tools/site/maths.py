"""TeX to MathML when the site is built: no script, no font and no network when it is read."""

import html
import re
from xml.etree import ElementTree

from latex2mathml.converter import convert

MATHML = "http://www.w3.org/1998/Math/MathML"
SCRIPTS = ("msub", "msup", "msubsup", "munder", "mover", "munderover")
FUNCTION = re.compile(r"^[a-zA-Z]{2,}$")


def render(page_html: str) -> str:
    """Replace what pymdownx.arithmatex has marked as maths."""
    def maths(found):
        return mathml(html.unescape(found[2]), "block" if found[1] == "div" else "inline")
    return re.sub(r'<(span|div) class="arithmatex">\\[(\[](.*?)\\[)\]]</\1>', maths, page_html, flags=re.S)


def mathml(tex: str, display: str = "inline") -> str:
    """MathML with the spaces a typesetter would set, where latex2mathml leaves them to the browser."""
    ElementTree.register_namespace("", MATHML)
    root = ElementTree.fromstring(convert(tex, display=display))
    names = {name: f"{{{MATHML}}}{name}" for name in (*SCRIPTS, "mo", "mi", "mrow", "mspace")}
    for operator in root.iter(names["mo"]):
        # A symbol or the name of a function is no operator: no space around it.
        if operator.text == "∞" or FUNCTION.match(operator.text or ""):
            operator.tag = names["mi"]
    for tag in SCRIPTS:           # operators in indices stand close: i≤t
        for script in root.iter(names[tag]):
            for operator in (o for part in list(script)[1:] for o in part.iter(names["mo"])):
                operator.set("lspace", "0")
                operator.set("rspace", "0")
    for row in list(root.iter(names["mrow"])):  # log p, not logp
        for position, (first, second) in reversed(list(enumerate(zip(row, list(row)[1:])))):
            name = first if first.tag == names["mi"] else first[0] if first.tag in map(names.get, SCRIPTS) else None
            if name is not None and FUNCTION.match(name.text or "") and second.tag != names["mo"]:
                row.insert(position + 1, ElementTree.Element(names["mspace"], width="0.17em"))
    return ElementTree.tostring(root, encoding="unicode")
