"""Which chapter and which pieces a module is made of, and the links between them."""

import re
from dataclasses import dataclass, field
from html import escape, unescape
from pathlib import Path

from mkdocs.utils.meta import get_data

# The two named fences of a chapter, as entangled.toml reads them.
PIECE = re.compile(r"^```python #([\w-]+).*$")
ASSEMBLY = re.compile(r"^``` *\{\.python file=([^ }]+)\} *$", re.M)
REFERENCE = re.compile(r"^\s*<<([\w-]+)>>\s*$")


@dataclass
class Module:
    path: str
    chapter: str                                     # the chapter with its assembly block
    pieces: list[str] = field(default_factory=list)  # in the order of the assembly

    @property
    def id(self) -> str:
        return "module-" + Path(self.path).stem.strip("_")


class Book:
    """The chapters' fences, read once per build."""

    def __init__(self, sources: list[Path]):
        self.modules: dict[str, Module] = {}
        self.chapter_of: dict[str, str] = {}  # piece -> chapter
        self.module_of: dict[str, Module] = {}
        self.title: dict[str, str] = {}       # chapter -> its title
        for source in sources:
            module = None
            text, front_matter = get_data(source.read_text(encoding="utf-8"))
            self.title[source.name] = front_matter.get("title", source.stem)
            for line in text.splitlines():
                if found := PIECE.match(line):
                    self.chapter_of.setdefault(found[1], source.name)
                elif found := ASSEMBLY.match(line):
                    module = self.modules[found[1]] = Module(found[1], source.name)
                elif line.startswith("```"):
                    module = None
                elif module and (found := REFERENCE.match(line)):
                    module.pieces.append(found[1])
                    self.module_of[found[1]] = module

    def heading(self, name: str) -> str:
        """The title of a piece's code block: the module it goes into, then its name."""
        module = self.module_of.get(name)
        return f"{module.path} · {name}" if module else name

    def label_assemblies(self, markdown: str) -> str:
        """Give each assembly block its file as title, and an anchor."""
        def fence(found):
            module = self.modules[found[1]]
            return f'``` {{.python #{module.id} title="{module.path}"}}'
        return ASSEMBLY.sub(fence, markdown)

    def link(self, page_html: str, url) -> str:
        """Turn titles of pieces and references in assemblies into links; url(chapter) is its address."""
        def piece(name, text, title):
            return _a(f"{url(self.chapter_of[name])}#piece-{name}", text, title)

        def title(found):
            path, _, name = unescape(found[1]).partition(" · ")
            if not (module := self.modules.get(path)):
                return found[0]
            if not name:
                whole = _a(url("package.md") + "#" + module.id, path, "the whole module")
                return f'<span class="filename">{whole}</span>'
            at = module.pieces.index(name)
            steps = "".join(piece(module.pieces[i], arrow, f"{which} piece: {module.pieces[i]}")
                            for i, arrow, which in ((at - 1, "‹", "previous"), (at + 1, "›", "next"))
                            if 0 <= i < len(module.pieces))
            file = _a(url(module.chapter) + "#" + module.id, path, "how the module is put together")
            return f'<span class="filename">{file} · {escape(name)}<span class="steps">{steps}</span></span>'

        def reference(found):
            name = unescape(re.sub(r"<.*?>", "", found[0])).strip("<>")
            return piece(name, f"<<{name}>>", "this piece") if name in self.chapter_of else found[0]

        page_html = re.sub(r'<span class="filename">(.*?)</span>', title, page_html)
        # Pygments takes <<a-b>> for operators and names and puts each in a span.
        return re.sub(r'<span class="o">&lt;&lt;</span>(?:<span class="\w+">[\w-]+</span>)+'
                      r'<span class="o">&gt;&gt;</span>', reference, page_html)

    def package_page(self, root: Path) -> str:
        """The page that shows the whole package beside the chapters it comes from."""
        code = {path: (root / path).read_text(encoding="utf-8").rstrip() for path in self.modules if (root / path).exists()}
        total = sum(text.count("\n") + 1 for text in code.values())
        page = ["---\ntitle: The package\ndescription: Every module of tinyllm, with the chapter and the pieces it is tangled from.\n---\n",
                "# The package\n",
                f"These {len(code)} modules, {total} lines in all, are written in the chapters and nowhere else. "
                "Each is listed with the chapter that tells it and the pieces it is put together from.\n",
                "| Module | Lines | Chapter | Pieces |\n|---|--:|---|---|"]
        for path, text in code.items():
            module = self.modules[path]
            pieces = ", ".join(f"[{name}]({self.chapter_of.get(name, module.chapter)}#piece-{name})" for name in module.pieces)
            page.append(f"| [`{path}`](#{module.id}) | {text.count(chr(10)) + 1} | [{self.title[module.chapter]}]({module.chapter}#{module.id}) | {pieces} |")
        for path, text in code.items():
            module = self.modules[path]
            page.append(f"\n## `{path}` {{ #{module.id} }}\n\nFrom [{self.title[module.chapter]}]({module.chapter}#{module.id}).\n\n{fence(text)}")
        return "\n".join(page) + "\n"


def fence(code: str, attributes: str = ".python") -> str:
    """A fenced block, its fence longer than any run of backticks in the code."""
    ticks = "`" * max(3, 1 + max(map(len, re.findall("`+", code)), default=0))
    return f"{ticks} {{{attributes}}}\n{code}\n{ticks}"


def _a(href: str, text: str, title: str) -> str:
    return f'<a href="{escape(href, quote=True)}" title="{escape(title, quote=True)}">{escape(text)}</a>'
