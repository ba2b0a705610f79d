"""MkDocs events of the book.

A chapter goes: Markdown with code (docs/) → executed notebook (pages/execute.py, cached)
→ mkdocs-jupyter, which writes it as Markdown through our template (pages/templates)
→ MkDocs' own renderer, as every other page: links checked, Material's extensions, contents.
"""

import functools
import html
import logging
import re
from pathlib import Path

import mkdocs_jupyter.config
import nbformat
from mkdocs.structure.files import File
from mkdocs.structure.pages import Page
from mkdocs.utils import get_relative_url
from mkdocs_jupyter.convert import nb2html

from pages import execute, figures, maths, pieces, playground

# mkdocs-jupyter looks for its one template here; its own brings 574 KB of JupyterLab's styles.
mkdocs_jupyter.config.settings.templates_dir = str(Path(__file__).parent / "pages" / "templates")

book: pieces.Book


def on_config(config):
    """Edit links only when there is a repository to link to; no talk between the lines of the build."""
    if not config.repo_url:
        config.edit_uri = None
    for name in ("traitlets", "asyncio", "nbconvert", "mkdocs.mkdocs-jupyter"):
        logging.getLogger(name).setLevel(logging.ERROR)
    pages_log = logging.getLogger("mkdocs.structure.pages")
    pages_log.filters[:] = [LineOfLink(Path(config.docs_dir))]
    return config


def on_files(files, config):
    """Add the page that shows the package, and the model that runs in the playground."""
    global book
    book = pieces.Book(Path(config.docs_dir))
    files.append(File.generated(config, "package.md", content=book.package_page(execute.ROOT)))
    for file in playground.files(config):
        files.append(file)
    return files


def on_page_markdown(markdown, page, config, files):
    return playground.insert_source(markdown)


def on_pre_page(page, config, files):
    if "render" in vars(page):  # mkdocs-jupyter has taken this page for a notebook
        # Its own rendering knows neither Material's extensions nor our links; ours calls its converter.
        page.render = functools.partial(render, page)
        page.nb_url = Path(page.file.src_uri).with_suffix(".ipynb").name  # for the download button
    return page


def render(page, config, files):
    """A chapter, from its file to HTML."""
    source = Path(page.file.abs_src_path)
    notebook = execute.executed(source)
    here = page.file.dest_uri.removesuffix("index.html")
    files.append(File.generated(config, here + page.nb_url, content=for_readers(notebook)))
    for name, content in dress(notebook).items():
        files.append(File.generated(config, here + name, content=content))

    dressed = execute.CACHE / "pages" / page.nb_url
    dressed.parent.mkdir(parents=True, exist_ok=True)
    nbformat.write(notebook, dressed)
    written = nb2html(str(dressed))
    # What follows the body is JupyterLab's styles, which the plugin appends to every notebook.
    page.markdown = html.unescape(written.partition("<style>")[0])
    Page.render(page, config, files)
    # MkDocs collects anchors before code blocks are in the page: add those of the pieces.
    page.present_anchor_ids |= set(re.findall(r'id="((?:piece|module)-[^"]+)"', page.content))


def dress(notebook) -> dict[str, bytes]:
    """Prepare cells for the template: code as fences, figures as links to files (returned)."""
    files, seen, count = {}, set(), 0
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            cell.source = book.label_assemblies(cell.source)
            continue
        attributes = ".python"
        if name := cell.metadata.get("piece"):
            attributes += f' title="{book.heading(name)}"' + (f" #piece-{name}" if name not in seen else "")
            seen.add(name)
        cell.metadata.fence = pieces.fence(cell.source, attributes)
        for output in cell.outputs:
            if any(kind.startswith("image/") for kind in output.get("data", {})):
                count += 1
                tag, new = figures.figures(output, cell.metadata.alt, count)
                output.data = {"text/html": tag}
                files |= new
    return files


def for_readers(notebook) -> str:
    """The notebook as a download: links lead to the neighbouring notebooks."""
    notebook = nbformat.from_dict(notebook)
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            cell.source = re.sub(r"(\]\([\w-]+)\.md(?=[#)])", r"\1.ipynb", cell.source)
    return nbformat.writes(notebook)


def on_page_content(content, page, config, files):
    """Links between pieces and modules, maths, and the playground's scripts."""
    def url(name):
        target = files.get_file_from_path(name)
        return "" if target.page is page else get_relative_url(target.url, page.url)

    return playground.load(maths.render(book.link(content, url)), page)


def on_post_build(config):
    execute.forget_old()


class LineOfLink(logging.Filter):
    """MkDocs names the file of a broken link; add the line."""

    def __init__(self, docs):
        super().__init__()
        self.docs = docs

    def filter(self, record):
        if found := re.match(r"Doc file '(.+?)' contains .*?link '(.+?)'", record.getMessage()):
            source = self.docs / found[1]
            lines = source.read_text(encoding="utf-8").splitlines() if source.exists() else []
            at = [n for n, line in enumerate(lines, 1) if found[2] in line]
            record.msg = f"docs/{found[1]}:{at[0] if at else '?'}: {record.getMessage()}"
            record.args = ()
        return True
