"""One registry on the embedded store, for tests of what is the same on both."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest

from tests.registry_kit import House
from twinraven.storage import Database


@pytest.fixture
def house(sqlite_database: Database, tmp_path: Path) -> Generator[House]:
    house = House(sqlite_database, tmp_path / "tools" / "generated")
    yield house
    house.close()
