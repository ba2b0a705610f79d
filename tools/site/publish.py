"""Build the site beside the old one and put it in its place when it is whole.

`built.json` in the site says of which sources it is made and which files belong to it. Without it, with a
file missing or of another size, or with other sources, the site is built anew.
"""

import contextlib
import hashlib
import json
import os
import shutil
import sys
from pathlib import Path

from filelock import FileLock, Timeout

LIST = "built.json"
SETTINGS = ("SITE_URL", "REPO_URL", "EDIT_URI")     # what mkdocs.yml takes from the environment
PARTS = ("docs", "tools", "tinyllm", "mkdocs.yml", "constraints.txt")


def build(root: Path, render=None) -> None:
    """Make root/site what it should be. Raises SystemExit with the status of a build that failed."""
    site, new, old = root / "site", root / "site.new", root / "site.old"
    with one_at_a_time(root):
        if old.exists() and not site.exists():      # killed between the two renames below
            old.rename(site)
        remove(old)
        sources = state(root)
        if is_whole(site, sources):
            return
        remove(new)
        (render or with_mkdocs)(root, new)
        write_list(new, sources)
        if site.exists():
            site.rename(old)
        new.rename(site)
        remove(old)


def with_mkdocs(root: Path, target: Path) -> None:
    """As `mkdocs build`, but in this process: a child would go on writing when this one has been killed."""
    import click
    from mkdocs.__main__ import cli         # takes a second, which a site that is up to date need not wait

    os.environ |= {"NO_MKDOCS_2_WARNING": "1", "JUPYTER_PLATFORM_DIRS": "1"}
    try:
        with contextlib.chdir(root):
            cli(["build", "--strict", "-d", str(target)], standalone_mode=False)
    except click.Abort:
        raise KeyboardInterrupt from None
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)


def state(root: Path) -> str:
    """A digest of all that the site is made of. It is taken before a build: a file that changes during the
    build makes its site out of date."""
    sha = hashlib.sha256(json.dumps([os.environ.get(name) for name in SETTINGS]).encode())
    for path in files(root, PARTS):
        content = path.read_bytes()
        sha.update(f"{path.relative_to(root).as_posix()} {len(content)}\n".encode())
        sha.update(content)
    return sha.hexdigest()


def files(root: Path, parts):
    for part in map(root.joinpath, parts):
        found = sorted(part.rglob("*")) if part.is_dir() else [part]
        for path in found:
            names = path.relative_to(root).parts
            if path.is_file() and not any(name.startswith(".") or name == "__pycache__" for name in names):
                yield path


def listing(site: Path) -> dict[str, int]:
    return {path.relative_to(site).as_posix(): path.stat().st_size for path in sorted(site.rglob("*"))
            if path.is_file() and path.name != LIST}


def write_list(site: Path, sources: str) -> None:
    built = {"sources": sources, "files": listing(site)}
    (site / LIST).write_text(json.dumps(built, indent=0) + "\n", "utf-8")


def is_whole(site: Path, sources: str) -> bool:
    """Is this the site of these sources, with every file it was built with?"""
    try:
        built = json.loads((site / LIST).read_text("utf-8"))
        wanted = built["files"]
    except (OSError, ValueError, KeyError, TypeError):
        return False
    here = listing(site)
    return built.get("sources") == sources and all(here.get(name) == size for name, size in wanted.items())


def remove(folder: Path) -> None:
    if folder.exists():
        shutil.rmtree(folder)


@contextlib.contextmanager
def one_at_a_time(root: Path):
    """Two builds would write into the same folder."""
    (root / ".cache").mkdir(exist_ok=True)
    lock = FileLock(root / ".cache" / "site.lock")
    try:
        lock.acquire(blocking=False)
    except Timeout:
        print("another build of this book is running: waiting for it …", file=sys.stderr, flush=True)
        lock.acquire()
    try:
        yield
    finally:
        lock.release()
