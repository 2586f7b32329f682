"""Every relative link of the Markdown leads to a file that is there, and to a heading that it has."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

from tools.requirements import ROOT

_FENCE = re.compile(r"^(```|~~~).*?^\1", flags=re.DOTALL | re.MULTILINE)
_LINK = re.compile(r"\[[^\]\n]*\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#{1,6} +(.+?) *#*$", flags=re.MULTILINE)
_FOLDERS = ("docs", "examples", "deploy")
PAGES = sorted([*ROOT.glob("*.md"), *(page for folder in _FOLDERS for page in (ROOT / folder).rglob("*.md"))])


@cache
def _prose(page: Path) -> str:
    return _FENCE.sub("", page.read_text(encoding="utf-8"))


def _anchor(heading: str) -> str:
    """Derive a heading's anchor as GitHub and mkdocs do."""
    plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").lower()
    return re.sub(r"[^\w\- ]", "", plain).strip().replace(" ", "-")


@cache
def _anchors(page: Path) -> set[str]:
    return {_anchor(heading) for heading in _HEADING.findall(_prose(page))}


def _broken(page: Path, target: str) -> bool:
    file, _, anchor = target.partition("#")
    place = (page.parent / file).resolve() if file else page
    if not place.exists() or not place.is_relative_to(ROOT):
        return True
    return bool(anchor) and (place.suffix != ".md" or anchor not in _anchors(place))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    """No page sends a reader to a file or a heading that is not there."""
    targets = [target for target in _LINK.findall(_prose(page)) if not re.match(r"[a-z]+:", target)]
    assert [target for target in targets if _broken(page, target)] == []


def test_the_site_has_every_page() -> None:
    """A page that was added to docs/ is in the navigation of tools/mkdocs.yml, too."""
    navigation = (ROOT / "tools" / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:\n")[2]
    docs = ROOT / "docs"
    assert sorted(re.findall(r"\S+\.md$", navigation, flags=re.MULTILINE)) == sorted(
        str(page.relative_to(docs)) for page in docs.rglob("*.md")
    )


def test_a_broken_link_is_found() -> None:
    """The check tells good links from bad ones: file, heading, and both."""
    readme = ROOT / "README.md"
    assert not _broken(readme, "docs/cli.md")
    assert not _broken(readme, "#install")
    assert _broken(readme, "docs/nowhere.md")
    assert _broken(readme, "#nowhere")
    assert _broken(readme, "docs/cli.md#nowhere")
