"""A book of two small chapters in a copy of the tools, for tests of how books are built and served."""

import os
import re
import shutil
from pathlib import Path

import mkdocs_fork

ROOT = Path(__file__).resolve().parents[2]

CHAPTER = """\
---
title: {title}
description: A small chapter.
jupyter:
  kernelspec:
    display_name: Python 3
    language: python
    name: python3
---

# {title}

See [the other]({other}.md#its-end). The price is $x^2$.

> [!NOTE]
> A note.

{cells}

## Its end
"""
ONE = """\
```python #answer
def answer():
    return 41 + 1
```

``` {.python file=tinyllm/mod.py}
<<answer>>
```
"""
TWO = """\
```python
from tinyllm.mod import answer
print("the answer is", answer())
```
"""


class Book:
    def __init__(self, folder):
        self.folder = folder

    def begin(self):
        shutil.copytree(ROOT / "tools", self.folder / "tools", ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copytree(ROOT / "docs" / "assets", self.folder / "docs" / "assets")
        config = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
        config = re.sub(r"^nav:\n(?:  .*\n)+", "nav: [index.md, 01-one.md, 02-two.md, package.md]\n", config, flags=re.M)
        self.write("mkdocs.yml", config)
        self.write("constraints.txt", "")
        self.write("tinyllm/__init__.py", "")  # or an installed tinyllm would come before this folder
        self.write("tinyllm/mod.py", "def answer():\n    return 41 + 1\n")
        self.write("docs/index.md", "---\ntitle: Cover\ndescription: A book.\n---\n# Cover\n")
        self.chapter("01-one", ONE, "02-two")
        self.chapter("02-two", TWO, "01-one")

    def write(self, name, text):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def chapter(self, name, cells, other):
        self.write(f"docs/{name}.md", CHAPTER.format(title=name, cells=cells, other=other))

    def edit(self, name, old, new):
        text = (self.folder / name).read_text(encoding="utf-8")
        assert old in text
        self.write(name, text.replace(old, new))

    def build(self, fails=False):
        status, said = mkdocs_fork.build(self.folder, os.environ | {"NO_MKDOCS_2_WARNING": "1", "NO_COLOR": "1"})
        assert (status != 0) == fails, said
        assert "Traceback" not in said and len(said.splitlines()) < 25, said
        return said

    def page(self, name):
        return (self.folder / "site" / name / "index.html").read_text(encoding="utf-8")
