"""Templates and scripts keep to the content policy by construction."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import twinraven.console
from twinraven.console.replies import CONTENT_POLICY

_ROOT = Path(twinraven.console.__file__).parent
TEMPLATES = sorted((_ROOT / "templates").glob("*.html"))
STATIC = sorted((_ROOT / "static").glob("*"))
_VENDORED = ("htmx.min.js", "idiomorph.min.js")


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: path.name)
def test_templates_have_nothing_inline_and_trust_nothing(path: Path) -> None:
    """No template has an inline style or script, an event attribute, an htmx expression, or marks a text as safe."""
    text = path.read_text()
    for forbidden in (r"\|\s*safe", r"<style", r"\sstyle=", r"<script(?![^>]*\ssrc=)", r"\son\w+=", r"hx-on",
                      r"hx-vals",
                      r"Markup", r"javascript:", r"autoescape"):  # fmt: skip
        assert re.search(forbidden, text) is None, forbidden


@pytest.mark.parametrize("path", [*TEMPLATES, *(each for each in STATIC if each.is_file())], ids=lambda path: path.name)
def test_nothing_is_fetched_from_elsewhere(path: Path) -> None:
    """No page, sheet or script of ours names another site."""
    if path.suffix == ".woff2" or path.name in _VENDORED:
        return
    found = re.findall(r"https?://[^\s\"'<)]+", path.read_text())
    assert [each for each in found if each != "http://www.w3.org/2000/svg"] == []


def test_only_python_that_escapes_makes_markup() -> None:
    """Markup is built in the drawing package and in formatting alone, where every text is escaped."""
    makers = {path.relative_to(_ROOT).as_posix() for path in _ROOT.rglob("*.py") if "Markup(" in path.read_text()}
    assert {each for each in makers if not each.startswith("drawing/")} == {"formatting.py"}


def test_content_policy() -> None:
    """The policy allows what this origin serves and nothing else."""
    assert CONTENT_POLICY == (
        "default-src 'none'; script-src 'self'; style-src 'self'; font-src 'self'; img-src 'self'; connect-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    )
    assert "unsafe" not in CONTENT_POLICY


def test_what_is_vendored_has_its_licence() -> None:
    """Every file that is not ours is there with the text of its licence."""
    assert {path.stem for path in (_ROOT / "static" / "licences").glob("*.txt")} == {
        "htmx", "idiomorph", "inter", "jetbrains-mono",
    }  # fmt: skip
