"""`mkdocs serve` tangles before each build, so a page is never run against yesterday's code."""

from mkdocs.exceptions import BuildError

import book

serving = False


def on_startup(command, dirty):
    global serving
    serving = command == "serve"


def on_pre_build(config):
    if serving:
        try:
            book.do_tangle(book.ROOT)
        except book.Fault as fault:
            raise BuildError(str(fault)) from None
