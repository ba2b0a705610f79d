"""How long from a key to the finished picture of the map, beside the forward pass alone.

    python -m tools.measure.keys [CHROMIUM]

In headless Chromium, on the built site, in one run: for 17 and for 128 symbols, the median over many keys of the
time from the event until map and prediction are drawn and the page is laid out, and that of model.js alone. The
surprise of each symbol, above the map, follows in the next frame.
"""

import http.server
import shutil
import sys
import threading
from functools import partial
from pathlib import Path

SITE = Path(__file__).resolve().parents[2] / "site"
TEXTS = {17: "It is not a list!", 128: "x = 1; " * 18 + "x "}
MEASURE = """(text) => {
  const box = document.querySelector("textarea"), keys = [], passes = [];
  const middle = (times) => times.sort((a, b) => a - b)[times.length >> 1];
  for (let n = 0; n < 60; n++) {
    box.value = n % 2 ? text : text.slice(0, -1);
    const start = performance.now();
    box.dispatchEvent(new Event("input")), document.body.offsetHeight;
    const drawn = performance.now();
    playground.shipped.forward(playground.now.ids);
    if (n >= 20) keys.push(drawn - start), passes.push(performance.now() - drawn);      // the first warm it up
  }
  return [middle(keys), middle(passes)] }"""


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *args):
        pass


def main() -> None:
    from playwright.sync_api import sync_playwright

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=SITE))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    browser = sys.argv[1] if len(sys.argv) > 1 else shutil.which("chromium") or shutil.which("google-chrome")
    with sync_playwright() as program:
        page = program.chromium.launch(executable_path=browser, args=["--no-sandbox"]).new_page(viewport={"width": 1440, "height": 900})
        page.goto(f"http://127.0.0.1:{server.server_address[1]}/playground/")
        page.locator(".tinyllm-playground[data-ready]").first.wait_for()
        for symbols, text in TEXTS.items():
            key, alone = page.evaluate(MEASURE, text)
            print(f"{symbols:3} symbols: {key:.1f} ms from key to picture, forward pass alone {alone:.1f} ms: {key / alone:.2f}")


if __name__ == "__main__":
    main()
