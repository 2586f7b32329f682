"""One browser and one console for all acceptance tests that look at pages: both are dear to start."""

from __future__ import annotations

from collections.abc import Generator

import pytest

from tests.browsing import Browser, running_browser
from tests.console_desk import fill_desk, make_desk
from tests.console_site import Site, serving


@pytest.fixture(scope="session")
def browser() -> Generator[Browser]:
    with running_browser() as browser:
        yield browser


@pytest.fixture(scope="session")
def desk_site(tmp_path_factory: pytest.TempPathFactory) -> Generator[Site]:
    """A support desk after a day of work; tests add to it and take nothing away that another one needs."""
    home = make_desk(tmp_path_factory.mktemp("desk"))
    fill_desk(home, sessions=60)
    with serving(home) as site:
        yield site
