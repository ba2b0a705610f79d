"""The built site, as files and as a browser with the network cut off sees it.

`make test` builds it first; SITE_DIR names another folder to look at.
"""

import functools
import http.server
import os
import re
import shutil
import threading
from pathlib import Path
from urllib.parse import unquote, urljoin, urlsplit

import nbformat
import pytest
from bs4 import BeautifulSoup

pytestmark = pytest.mark.site

ROOT = Path(__file__).resolve().parents[2]
SITE = Path(os.environ.get("SITE_DIR", ROOT / "site")).resolve()
CHAPTERS = [path.stem for path in sorted((ROOT / "docs").glob("[0-9]*.md"))]
PAGES = sorted(str(path.relative_to(SITE)) for path in SITE.rglob("*.html")) if SITE.is_dir() else []
KB = 1000


@functools.cache
def soup(page):
    return BeautifulSoup((SITE / page).read_text(encoding="utf-8"), "html.parser")


def article(page):
    return soup(page).find("article") or pytest.fail(f"{page} has no article")


def target(page, address):
    """The file of the site that a page's relative address leads to, and the anchor."""
    url = urlsplit(urljoin("http://site/" + page, address))
    path = SITE / unquote(url.path).lstrip("/")
    return (path / "index.html" if url.path.endswith("/") else path), unquote(url.fragment)


def local(address):
    return not urlsplit(address).scheme and not address.startswith("//")


def test_the_site_is_built():
    assert (SITE / "index.html").exists(), "no site to look at: make book"
    assert CHAPTERS and all(f"{name}/index.html" in PAGES for name in CHAPTERS)


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_a_chapter_has_executed_outputs_and_a_notebook(chapter):
    assert article(f"{chapter}/index.html").select(".output"), "no output on the page"
    notebook = nbformat.read(SITE / chapter / f"{chapter}.ipynb", as_version=4)
    nbformat.validate(notebook)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            assert cell.execution_count, f"not executed: {cell.source}"
            if "raises-exception" not in cell.metadata.get("tags", []):
                assert not [out for out in cell.outputs if out.output_type == "error"], cell.source
    assert soup(f"{chapter}/index.html").find("a", href=f"{chapter}.ipynb"), "no download button"


@pytest.mark.parametrize("page", PAGES)
def test_a_page_is_light(page):
    html = (SITE / page).stat().st_size
    assert html <= 200 * KB
    addresses = {node.get("src") or node.get("href") for node in soup(page).select("img, script[src], link[rel=stylesheet]")}
    parts = {path for path, _ in (target(page, address) for address in addresses) if path.is_file()}
    assert html + sum(path.stat().st_size for path in parts) <= 1500 * KB


@pytest.mark.parametrize("page", PAGES)
def test_a_page_has_no_raw_markup(page):
    text = BeautifulSoup(str(article(page)), "html.parser")
    for code in text.select("pre, code, samp, math, script"):
        code.decompose()
    for raw in ("$", "!!!", "[!", "```", "**", "\\(", "<<", "incorrectly"):
        assert raw not in text.get_text(), text.get_text()[max(0, text.get_text().find(raw) - 60):][:120]


@pytest.mark.parametrize("page", PAGES)
def test_a_page_says_what_it_is(page):
    head = soup(page).head
    assert head.title.get_text().strip()
    assert head.find("meta", attrs={"name": "description"})["content"].strip()
    assert target(page, head.find("link", rel="icon")["href"])[0].is_file() or page == "404.html"


@pytest.mark.parametrize("page", PAGES)
def test_images_have_alt_text(page):
    for image in article(page)("img"):
        assert len(image.get("alt", "").split()) > 2, f"{image['src']}: alt text {image.get('alt')!r}"


@pytest.mark.parametrize("page", [page for page in PAGES if page != "404.html"])  # its links are absolute
def test_links_and_anchors_lead_somewhere(page):
    for node in soup(page).select("[href], [src]"):
        address = node.get("href") or node.get("src")
        if not address or not local(address):
            continue
        path, anchor = target(page, address)
        assert path.is_file(), f"{address} leads nowhere"
        if anchor and path.suffix == ".html":
            assert soup(str(path.relative_to(SITE))).find(id=anchor), f"no anchor {address}"


@pytest.mark.parametrize("page", PAGES)
def test_nothing_is_fetched_from_elsewhere(page):
    for node in soup(page).select("script[src], img, iframe, source, link[rel=stylesheet], link[rel=icon], link[rel=preconnect]"):
        assert local(node.get("src") or node.get("href")), node
    for sheet in soup(page).select("link[rel=stylesheet]"):
        path, _ = target(page, sheet["href"])
        if path.is_file():
            assert not re.search(r"url\(['\"]?https?:|@import", path.read_text(encoding="utf-8")), path


def test_the_package_and_the_chapters_are_linked_both_ways():
    page = article("package/index.html")
    for source in sorted((ROOT / "tinyllm").glob("*.py")):
        heading = page.find(lambda node: node.name == "h2" and node.get_text().startswith(f"tinyllm/{source.name}"))
        assert heading, f"{source.name} is not on the page"
        back = [a for a in page("a", href=True) if a["href"].endswith("#" + heading["id"]) and a["href"].startswith("../")]
        assert back, f"no link from {source.name} to its chapter"
        path, anchor = target("package/index.html", back[0]["href"])
        assembly = soup(str(path.relative_to(SITE))).find(id=anchor)
        assert assembly.find("a", href=f"../package/#{anchor}"), f"no link from the chapter to {source.name}"


# ---- In a browser ----------------------------------------------------------

@pytest.fixture(scope="module")
def server():
    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *args):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=SITE)) as httpd:
        threading.Thread(target=httpd.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{httpd.server_port}/"
        httpd.shutdown()


@pytest.fixture(scope="module")
def browser():
    names = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
    found = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, names)), None)
    try:
        from playwright.sync_api import sync_playwright
        with sync_playwright() as playwright:
            # Every name but the server's address is unknown: the network is cut off.
            cut_off = ["--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1", "--no-sandbox", "--disable-gpu",
                       "--disable-quic", "--disable-background-networking", "--disable-component-update", "--disable-sync"]
            browser = playwright.chromium.launch(executable_path=found, args=cut_off)
            yield browser
            browser.close()
    except Exception as problem:
        if "browser" in locals():
            raise
        message = ("no browser to look at the site with: install Chromium (Debian: apt install chromium) or name one "
                   f"in CHROMIUM=…, or: python -m playwright install chromium ({str(problem).splitlines()[0]})")
        (pytest.fail if os.environ.get("CI") else pytest.skip)(message)


# Text whose contrast with what is behind it is below WCAG AA (4.5, or 3 for large text).
FAINT = """() => {
  const parse = css => { const [r, g, b, a = 1] = css.match(/[\\d.]+/g).map(Number); return [r, g, b, a] };
  const over = (top, below) => top.slice(0, 3).map((c, i) => c * top[3] + below[i] * (1 - top[3])).concat(1);
  const light = ([r, g, b]) => [r, g, b].map(c => (c /= 255) <= .03928 ? c / 12.92 : ((c + .055) / 1.055) ** 2.4)
    .reduce((sum, c, i) => sum + c * [.2126, .7152, .0722][i], 0);
  const canvas = document.createElement('canvas').getContext('2d', {willReadFrequently: true});
  const rgba = css => { canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = css; canvas.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data; return [r, g, b, a / 255] };
  const behind = node => { const layers = [];
    for (; node; node = node.parentElement) { const c = rgba(getComputedStyle(node).backgroundColor); layers.push(c); if (c[3] == 1) break }
    return layers.reverse().reduce((below, top) => over(top, below), [255, 255, 255, 1]) };
  const faint = new Set();
  const walk = document.createTreeWalker(document.querySelector('.md-container'), NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) {
    const node = walk.currentNode.parentElement, style = getComputedStyle(node);
    if (!walk.currentNode.data.trim() || !node.checkVisibility({opacityProperty: true, visibilityProperty: true}) || node.closest('svg, [hidden], .headerlink')) continue;
    const back = behind(node), front = over(rgba(style.color), back);
    const [a, b] = [light(front), light(back)].sort((x, y) => y - x), ratio = (a + .05) / (b + .05);
    const size = parseFloat(style.fontSize), large = size >= 24 || size >= 18.66 && style.fontWeight >= 700;
    if (ratio < (large ? 3 : 4.5) - .01) faint.add(`${ratio.toFixed(2)} ${node.tagName}.${node.className} "${walk.currentNode.data.trim().slice(0, 30)}"`);
  }
  return [...faint];
}"""

# Every image, once it is scrolled to, has loaded; the hidden variant of a figure stays unloaded.
BROKEN = """async () => {
  const broken = [];
  for (const image of document.querySelectorAll('article img')) {
    if (!image.checkVisibility()) continue;
    image.scrollIntoView();
    try { await image.decode() } catch { broken.push(image.src) }
    if (!image.naturalWidth) broken.push(image.src);
  }
  return broken;
}"""

VIEWS = {"light, desktop": ("light", 1440, 900), "dark, desktop": ("dark", 1440, 900), "dark, phone": ("dark", 390, 844)}


@pytest.mark.parametrize("page", PAGES)
def test_in_a_browser_without_network(page, server, browser):
    tab = browser.new_page(color_scheme="light", viewport={"width": 1440, "height": 900})
    problems, loaded = [], []
    tab.on("console", lambda message: message.type in ("error", "warning") and problems.append(f"console: {message.text}"))
    tab.on("pageerror", lambda error: problems.append(f"script: {error}"))
    tab.on("requestfailed", lambda request: problems.append(f"failed: {request.url} {request.failure}"))
    tab.on("request", lambda request: request.url.startswith((server, "data:", "blob:")) or problems.append(f"asked for {request.url}"))
    tab.on("response", lambda response: response.status < 400 or problems.append(f"{response.status}: {response.url}"))
    tab.on("response", lambda response: loaded.append(int(response.headers.get("content-length", 0))))
    try:
        tab.goto(server + page.removesuffix("index.html"), wait_until="networkidle")
        assert sum(loaded) <= 1500 * KB, "the first view is too heavy"
        for view, (scheme, width, height) in VIEWS.items():
            tab.set_viewport_size({"width": width, "height": height})
            tab.emulate_media(color_scheme=scheme)
            tab.wait_for_function("name => document.body.dataset.mdColorScheme == name", arg="slate" if scheme == "dark" else "default")
            tab.wait_for_timeout(300)  # colours change in a transition
            assert tab.evaluate(BROKEN) == [], view
            assert tab.evaluate("document.documentElement.scrollWidth") <= width, f"{view}: the page scrolls sideways"
            assert tab.evaluate(FAINT) == [], f"{view}: too little contrast"
        assert problems == []
    finally:
        tab.close()


@pytest.mark.parametrize("way", ["keyboard", "address"])
def test_search_finds_a_word_of_a_chapter_and_loads_its_index_only_then(way, server, browser):
    tab, asked = browser.new_page(viewport={"width": 1440, "height": 900}), []
    tab.on("request", lambda request: "search_index" in request.url and asked.append(request.url))
    tab.goto(server, wait_until="networkidle")
    assert not asked
    if way == "keyboard":
        tab.keyboard.press("/")
        tab.keyboard.type("attention")
    else:
        tab.goto(server + "?q=attention")
    tab.locator(".md-search-result__link").first.wait_for(timeout=10_000)
    assert len(asked) == 1
    tab.close()
