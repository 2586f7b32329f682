"""Declares the settings of storage: the section `storage` of `twinraven.yaml`."""

from __future__ import annotations

from dataclasses import dataclass

from twinraven.foundation.setting_kinds import Text
from twinraven.foundation.settings import setting


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class StorageSettings:
    """An empty `url` is replaced by the file in the home."""

    url: str = setting(
        "", Text(), "Where everything is stored: sqlite:////absolute/file.db or postgresql://user@host/database."
    )
    admin_url: str | None = setting(
        None, Text(optional=True), "Login that owns the Postgres schema and runs migrations; default: url."
    )
