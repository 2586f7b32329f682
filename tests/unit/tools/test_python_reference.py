"""The Python reference is what the code says."""

from __future__ import annotations

import twinraven
from tools.python_reference import render_page
from tools.requirements import ROOT


def test_the_reference_is_current() -> None:
    """A signature that changed without its page fails here, and every public name has a section."""
    page = (ROOT / "docs" / "python.md").read_text(encoding="utf-8")
    assert render_page() == page, "run: python -m tools.python_reference > docs/python.md"
    assert [name for name in twinraven.__all__ if f"\n## {name}\n" not in page] == []
