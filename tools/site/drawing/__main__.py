"""Write docs/assets/drawing/*.svg:  python -m tools.site.drawing [FOLDER]"""

import sys
from pathlib import Path

from tools.site.drawing import pictures

if __name__ == "__main__":
    folder = Path(sys.argv[1]) if sys.argv[1:] else pictures.FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    for name, svg in pictures.files().items():
        (folder / name).write_text(svg, encoding="utf-8")
