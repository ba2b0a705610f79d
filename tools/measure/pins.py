"""Write constraints.txt: exact versions of all that pyproject.toml asks for.

    python tools/measure/pins.py python3.11 python3.12 python3.13 [torch==2.13.0 …]

Each Python's pip resolves the dependency ranges without installing anything.
The first one's choice counts for all; only Entangled, which has another
version for each Python, and what Entangled needs may differ by Python.
A version given on the command line is held.
"""

import json
import re
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HEAD = """\
# Exact versions of everything that builds and tests the book: pip install -c constraints.txt …
# Written by tools/measure/pins.py (see CONTRIBUTING.md); the ranges are in pyproject.toml.
"""


def normal(name):
    return re.sub(r"[-_.]+", "-", name).lower()


def resolve(python, requirements, pins):
    """{name: (version, what it requires)} as this Python's pip would install it."""
    with tempfile.TemporaryDirectory() as folder:
        wanted, fixed, report = (Path(folder) / name for name in ("wanted", "fixed", "report"))
        wanted.write_text("\n".join(requirements))
        fixed.write_text("\n".join(f"{name}=={version}" for name, version in pins.items()))
        subprocess.run([python, "-m", "pip", "install", "-q", "--dry-run", "--ignore-installed", "--report", report,
                        "--disable-pip-version-check", "-r", wanted, "-c", fixed], check=True)
        chosen = [item["metadata"] for item in json.loads(report.read_text("utf-8"))["install"]]
    return {normal(item["name"]): (item["version"].partition("+")[0], item.get("requires_dist", []))
            for item in chosen}


def main(arguments):
    pythons = [word for word in arguments if "==" not in word]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    requirements = project["dependencies"] + sum(project["optional-dependencies"].values(), [])
    pins = dict(word.split("==") for word in arguments if "==" in word)
    resolved = {}
    for python in pythons:
        version = subprocess.check_output([python, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"],
                                          text=True).strip()
        print(f"resolving for Python {version} …", file=sys.stderr)
        resolved[version] = found = resolve(python, requirements, pins)
        entangled = {normal(re.match(r"[\w.-]+", text)[0]) for text in found["entangled-cli"][1]} | {"entangled-cli"}
        for name in entangled:
            pins.pop(name, None)
        pins = {name: v for name, (v, _) in found.items() if name not in entangled} | pins

    lines, versions = [], list(resolved)
    for name in sorted(set().union(*resolved.values())):
        by_python = {v: resolved[v][name][0] for v in versions if name in resolved[v]}
        if len(set(by_python.values())) == 1:
            lines.append(f"{name}=={by_python.popitem()[1]}")
            continue
        for v, pinned in by_python.items():
            compare = "<=" if v == versions[0] else ">=" if v == versions[-1] else "=="
            lines.append(f'{name}=={pinned} ; python_version {compare} "{v}"')
    (ROOT / "constraints.txt").write_text(HEAD + "\n".join(lines) + "\n", "utf-8")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:] or [sys.executable]))
