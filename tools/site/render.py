"""An executed chapter as a page of the site, and as a notebook for its readers."""

import html
import re
from dataclasses import dataclass
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


@dataclass
class Made:
    """What a chapter became: the page's HTML, what MkDocs knows about it, and the files that belong to it."""
    content: str
    toc: object
    anchors: set
    links: dict             # {path of a page: the anchors on it that this page links to}
    files: dict             # {name: content}


served: dict[Path, tuple[object, Made]] = {}      # while the book is served: the state of a page, and what it became


def with_outputs(source: Path, book_is_served: bool):
    """The chapter as a notebook with its outputs, or, while they are being renewed, with its last ones; and the
    run that they are from."""
    page = notebook.read(source)
    if not notebook.code_cells(page):
        return page, None
    run = store.find(page, source)
    if run is None and book_is_served:
        run = store.latest(source)
    if run is not None:
        store.fill(page, run)
    if not book_is_served:
        notebook.check(page, source)
    return page, run


def render(page, config, files, book: pieces.Book, book_is_served: bool) -> None:
    """Give the page the HTML of the executed chapter, and the site the files that belong to it."""
    source = Path(page.file.abs_src_path)
    chapter, run = with_outputs(source, book_is_served)
    pages = [file.src_uri for file in files.documentation_pages()]
    state = source.read_bytes(), run, repr(vars(book)), pages
    if book_is_served and source in served and served[source][0] == state:
        made = served[source][1]
    else:
        made = make(page, config, files, book, chapter)
        served[source] = state, made
    here = page.file.dest_uri.removesuffix("index.html")
    for name, content in made.files.items():
        files.append(File.generated(config, here + name, content=content))
    page.content = made.content
    page.toc = made.toc
    page.present_anchor_ids = made.anchors
    page.links_to_anchors = {files.get_file_from_path(name): anchors for name, anchors in made.links.items()}


def make(page, config, files, book: pieces.Book, chapter) -> Made:
    made = {page.nb_url: for_readers(chapter)} | dress(chapter, book)
    dressed = DRESSED / page.nb_url
    dressed.parent.mkdir(parents=True, exist_ok=True)
    nbformat.write(chapter, dressed)
    written = nb2html(str(dressed))
    # What follows the body is JupyterLab's styles, which the plugin appends to every notebook.
    page.markdown = html.unescape(written.partition("<style>")[0])
    Page.render(page, config, files)
    # MkDocs collects anchors before code blocks are in the page: add those of the pieces.
    anchors = page.present_anchor_ids | set(re.findall(r'id="((?:piece|module)-[^"]+)"', page.content))
    links = {file.src_uri: anchors for file, anchors in (page.links_to_anchors or {}).items()}
    return Made(page.content, page.toc, anchors, links, made)


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
