"""A small shop whose tools take no time."""

from __future__ import annotations

from collections.abc import Callable, Generator
from pathlib import Path

import pytest

from examples.support_desk import SupportDesk, create_desk

MakeDesk = Callable[..., SupportDesk]


@pytest.fixture
def make_desk(tmp_path: Path) -> Generator[MakeDesk]:
    """Makes desks in files of their own, and closes them."""
    made: list[SupportDesk] = []

    def make(seed: int = 1, *, customers: int = 120, time_scale: float = 0.0, fault_scale: float = 1.0) -> SupportDesk:
        path = tmp_path / f"desk-{len(made)}.db"
        made.append(create_desk(path, seed, customers=customers, time_scale=time_scale, fault_scale=fault_scale))
        return made[-1]

    yield make
    for desk in made:
        desk.close()


@pytest.fixture
def desk(make_desk: MakeDesk) -> SupportDesk:
    return make_desk()
