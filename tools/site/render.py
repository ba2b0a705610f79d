"""An executed chapter as a page of the site, and as a notebook for its readers."""

import html
import re
from pathlib import Path

import mkdocs_jupyter.config
import nbformat
from mkdocs.structure.files import File
from mkdocs.structure.pages import Page
from mkdocs_jupyter.convert import nb2html

from tools.site import figures, notebook, pieces, store

# mkdocs-jupyter looks for its one template here; its own brings 574 KB of JupyterLab's styles.
mkdocs_jupyter.config.settings.templates_dir = str(Path(__file__).parent / "templates")
DRESSED = notebook.ROOT / ".cache" / "pages"


def with_outputs(source: Path, book_is_served: bool):
    """The chapter as a notebook with its outputs, or, while they are being renewed, with its last ones."""
    page = notebook.read(source)
    if notebook.code_cells(page):
        run = store.find(page, source)
        if run is None and book_is_served:
            run = store.latest(source)
        if run is not None:
            store.fill(page, run)
        if not book_is_served:
            notebook.check(page, source)
    return page


def render(page, config, files, book: pieces.Book, chapter) -> None:
    """Give the page the HTML of the executed chapter, and the site the files that belong to it."""
    here = page.file.dest_uri.removesuffix("index.html")
    files.append(File.generated(config, here + page.nb_url, content=for_readers(chapter)))
    for name, content in dress(chapter, book).items():
        files.append(File.generated(config, here + name, content=content))

    dressed = DRESSED / page.nb_url
    dressed.parent.mkdir(parents=True, exist_ok=True)
    nbformat.write(chapter, dressed)
    written = nb2html(str(dressed))
    # What follows the body is JupyterLab's styles, which the plugin appends to every notebook.
    page.markdown = html.unescape(written.partition("<style>")[0])
    Page.render(page, config, files)
    # MkDocs collects anchors before code blocks are in the page: add those of the pieces.
    page.present_anchor_ids |= set(re.findall(r'id="((?:piece|module)-[^"]+)"', page.content))


def dress(chapter, book: pieces.Book) -> dict[str, bytes]:
    """Prepare cells for the template: code as fences, figures as links to files (returned)."""
    files, seen, count = {}, set(), 0
    for cell in chapter.cells:
        if cell.cell_type == "markdown":
            cell.source = book.label_assemblies(cell.source)
            continue
        attributes = ".python"
        if name := cell.metadata.get("piece"):
            attributes += f' title="{book.heading(name)}"' + (f" #piece-{name}" if name not in seen else "")
            seen.add(name)
        cell.metadata.fence = pieces.fence(cell.source, attributes)
        for output in cell.outputs:
            if notebook.is_figure(output):
                count += 1
                tag, new = figures.figures(output, cell.metadata.get("alt", ""), count)
                output.data = {"text/html": tag}
                files |= new
    return files


def for_readers(chapter) -> str:
    """The notebook as a download: links lead to the neighbouring notebooks."""
    copy = nbformat.from_dict(chapter)
    for cell in copy.cells:
        if cell.cell_type == "markdown":
            cell.source = re.sub(r"(\]\([\w-]+)\.md(?=[#)])", r"\1.ipynb", cell.source)
    return nbformat.writes(copy)
