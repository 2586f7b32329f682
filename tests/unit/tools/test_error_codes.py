"""Every error code is documented, means one thing, and invites a second try only where that is safe."""

from __future__ import annotations

import re
from collections import Counter

import pytest

from tools.error_codes import error_classes, meaning, render_page
from tools.requirements import ROOT
from twinraven.foundation import errors
from twinraven.foundation.errors import PolicyViolation

PAGE = (ROOT / "docs" / "errors.md").read_text(encoding="utf-8")


@pytest.mark.req("CH-21")
def test_the_page_of_error_codes_is_what_the_code_says() -> None:
    """A code that was added, dropped or changed without its documentation fails here."""
    assert render_page() == PAGE, "run: python -m tools.error_codes > docs/errors.md"


@pytest.mark.req("CH-21")
def test_every_code_is_stable_in_form_and_says_what_it_means() -> None:
    """Codes are words in capitals, one for each class, with a meaning and somebody who acts."""
    kinds = error_classes()
    assert len(kinds) > 20
    assert [code for code, count in Counter(kind.code for kind in kinds).items() if count > 1] == []
    for kind in kinds:
        assert re.fullmatch(r"[A-Z][A-Z_]{3,}", kind.code)
        assert kind.acts in ("caller", "operator", "model", "nobody")
        assert len(meaning(kind)) > 8


@pytest.mark.req("CH-21")
def test_the_tree_and_the_classes_agree() -> None:
    """The drawing at the top of the module shows every class of it under its code."""
    for kind in error_classes():
        if kind.__module__ == errors.__name__:
            assert re.search(rf"\b{kind.__name__} +{kind.code} ", errors.__doc__ or "")


@pytest.mark.req("CH-21")
def test_violations_are_never_retryable_and_what_is_retryable_needs_nobody() -> None:
    """Policy and safety are not to be tried again; what may be tried again passes by itself."""
    for kind in error_classes():
        is_violation = issubclass(kind, PolicyViolation) or re.search("POLICY|SAFETY|VIOLATION|UNKNOWN", kind.code)
        assert not (is_violation and kind.retryable)
        assert kind.retryable is (kind.acts == "nobody")
