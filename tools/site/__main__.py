"""The site out of docs/ and tinyllm/, in site/: python -m tools.site

With --readers, instead: which chapters run again after a change of each file, by what they read last time.
"""

import argparse
import sys
from pathlib import Path

from tools.site.publish import build

ROOT = Path(__file__).resolve().parents[2]


def show_readers() -> None:
    from tools.chapters.book import chapter_paths
    from tools.site.store import readers

    for name, chapters in readers(chapter_paths(ROOT / "docs")).items():
        print(f"{name}: {len(chapters)}: {' '.join(chapters)}")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tools.site", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--readers", action="store_true", help="list files and the chapters that read them")
    if parser.parse_args().readers:
        return show_readers()
    try:
        build(ROOT)
    except KeyboardInterrupt:
        sys.exit("interrupted; the site is as it was before")
    except OSError as error:
        sys.exit(f"{error.filename or 'tools.site'}: {error.strerror or error}")


if __name__ == "__main__":
    main()
