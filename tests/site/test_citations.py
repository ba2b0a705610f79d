"""The list of references and the chapters agree: each work is cited, each citation is in the list, and each work
names the chapters that cite it."""

import re
from collections import Counter
from pathlib import Path

import pytest

pytestmark = pytest.mark.book

DOCS = Path(__file__).resolve().parents[2] / "docs"
LIST = "A7-references.md"
CITATION = re.compile(r"\[([^\]]+)\]\(A7-references\.md#([^)]+)\)")


def anchor(heading):
    return re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")


def references():
    """{short form: its text} in the order of the page."""
    parts = re.split(r"^### (.+)$", (DOCS / LIST).read_text("utf-8"), flags=re.M)[1:]
    return list(zip(parts[::2], parts[1::2]))


def citations():
    """(chapter, what the link says, where it leads) for each citation in the book."""
    for path in sorted(DOCS.glob("*.md")):
        if path.name != LIST:
            for said, where in CITATION.findall(path.read_text("utf-8")):
                yield path.name, said, where


def test_each_work_is_in_the_list_once():
    shorts = Counter(anchor(short) for short, _ in references())
    addresses = Counter(re.search(r"\]\((https://[^)]+)\)", text)[1] for _, text in references())
    titles = Counter(re.search(r": \*([^*]+)\*", text)[1].lower() for _, text in references())
    for names in (shorts, addresses, titles):
        assert len(names) > 20 and not [name for name, times in names.items() if times > 1]


def test_each_citation_is_in_the_list_and_is_written_in_one_form():
    forms = {anchor(short): short for short, _ in references()}
    for chapter, said, where in citations():
        assert forms.get(where) == said, f"{chapter}: [{said}] leads to {where}"


def test_each_work_is_cited_and_leads_back_to_the_chapters_that_cite_it():
    cited = {}
    for chapter, _, where in citations():
        cited.setdefault(where, set()).add(chapter)
    for short, text in references():
        back = set(re.findall(r"\]\(([\w-]+\.md)[^)]*\)", text.partition("Used in ")[2]))
        assert back == cited.get(anchor(short), set()) != set(), short


def test_works_are_cited_nowhere_without_the_list():
    for path in DOCS.glob("*.md"):
        if path.name != LIST:
            assert not re.search(r"arxiv\.org|doi\.org", path.read_text("utf-8")), f"{path.name}: put it into {LIST}"


@pytest.mark.parametrize("text", [text for _, text in references()], ids=[short for short, _ in references()])
def test_an_entry_has_authors_title_year_address_use_and_places(text):
    first, what = re.split(r"\n\n", text.partition("\n## ")[0].strip())
    assert re.fullmatch(r"[^:]+: \*[^*]+\*, .*(19|20)\d\d\. \[[^\]]+\]\(https://\S+\)", first), first
    for number in re.findall(r"\[arXiv:([^\]]+)\]", first):
        assert first.endswith(f"(https://arxiv.org/abs/{number})")
    assert len(what.splitlines()) == 2 and what.splitlines()[1].startswith("Used in ["), what
