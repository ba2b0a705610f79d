"""python -m tools.site: the site out of docs/ and tinyllm/, in site/."""

import sys
from pathlib import Path

from tools.site.publish import build

if __name__ == "__main__":
    try:
        build(Path(__file__).resolve().parents[2])
    except KeyboardInterrupt:
        sys.exit("interrupted; the site is as it was before")
    except OSError as error:
        sys.exit(f"{error.filename or 'tools.site'}: {error.strerror or error}")
