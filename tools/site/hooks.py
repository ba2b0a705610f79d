"""MkDocs events of the book.

A chapter goes: Markdown with code (docs/) → executed notebook (schedule, kernel, store)
→ mkdocs-jupyter, which writes it as Markdown through our template (render, templates/)
→ MkDocs' own renderer, as every other page: links checked, Material's extensions, contents.
"""

import functools
import logging
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
if str(ROOT) not in sys.path:           # `mkdocs build` looks for modules beside its own program
    sys.path.insert(0, str(ROOT))

import jinja2  # noqa: E402
import mkdocs_jupyter.plugin  # noqa: E402
from mkdocs.exceptions import BuildError  # noqa: E402
from mkdocs.structure.files import File  # noqa: E402
from mkdocs.utils import get_relative_url  # noqa: E402

from tools.chapters.book import chapter_paths, refuse_other_places  # noqa: E402
from tools.chapters.read import Fault  # noqa: E402
from tools.site import maths, notebook, pieces, playground, render, schedule, serve  # noqa: E402
from tools.site.drawing import strip  # noqa: E402

# The plugin reads a page several times to see whether it is a notebook: once is enough.
mkdocs_jupyter.plugin.jupytext = notebook

# Names without a colour of their own and blanks need no element: a sixth of a long chapter's HTML.
PLAIN_NAME = re.compile(r'<span class="[nw]">([^<]*)</span>')

book = pieces.Book([])               # what on_files reads, for the events after it


def on_startup(command, dirty):
    if command == "serve":
        serve.begin()


def on_config(config):
    """Edit links only when there is a repository to link to; no talk between the lines of the build."""
    if serve.running:
        serve.check_port(config)
    if not config.repo_url:
        config.edit_uri = None
    for name in ("traitlets", "asyncio", "nbconvert", "mkdocs.mkdocs-jupyter"):
        logging.getLogger(name).setLevel(logging.ERROR)
    pages_log = logging.getLogger("mkdocs.structure.pages")
    pages_log.filters[:] = [LineOfLink(Path(config.docs_dir))]
    return config


def on_pre_build(config):
    """Bring the chapters' outputs up to date; the server does that behind the pages it shows."""
    docs = Path(config.docs_dir)
    if serve.running:
        serve.renew(chapter_paths(docs))
        return
    try:
        refuse_other_places(docs)
    except Fault as fault:
        raise BuildError(str(fault)) from None
    schedule.run_all(chapter_paths(docs))


def on_files(files, config):
    """Add the page that shows the package, and the model that runs in the playground."""
    global book
    sources = chapter_paths(Path(config.docs_dir))
    book = pieces.Book(sources)
    files.append(File.generated(config, "package.md", content=book.package_page(ROOT)))
    for file in playground.files(config, sources):
        files.append(file)
    return files


def on_env(env, config, files):
    """MkDocs makes a new environment for each build; what Material's templates compile to stays the same."""
    folder = ROOT / ".cache" / "templates"
    folder.mkdir(parents=True, exist_ok=True)
    env.bytecode_cache = jinja2.FileSystemBytecodeCache(str(folder))
    return env


def on_page_markdown(markdown, page, config, files):
    return playground.insert_source(markdown)


def on_pre_page(page, config, files):
    if "render" in vars(page):  # mkdocs-jupyter has taken this page for a notebook
        # Its own rendering knows neither Material's extensions nor our links; ours calls its converter.
        page.render = functools.partial(render.render, page, book=book, book_is_served=serve.running)
        page.nb_url = Path(page.file.src_uri).with_suffix(".ipynb").name  # for the download button
    return page


def on_page_content(content, page, config, files):
    """Links between pieces and modules, maths, the playground's scripts, the strip, and the server's remarks."""
    def url(name):
        target = files.get_file_from_path(name)
        return "" if target.page is page else get_relative_url(target.url, page.url)

    name = page.file.src_uri
    content = playground.load(maths.render(book.link(content, url)), page)
    content = PLAIN_NAME.sub(r"\1", content)
    content = strip.insert(content, name, strip.chapters(book.title), book.title, url)
    return serve.remarks(name) + content


def on_serve(server, config, builder):
    serve.watch(server)
    return server


def on_shutdown():
    serve.end()


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
