"""Loads settings from `twinraven.yaml` and the environment, and validates them before anything starts.

A misspelt key that is silently ignored is found in production. Here every key has a type, limits, a default and a
description (`twinraven config` and the docs print them), and anything else is refused with the name of the key, of
the file or variable it stands in, and of what was probably meant.

Each context declares its own sections in its `settings.py`: frozen dataclasses whose fields are made by `setting`. They
have no __repr__, which would print passwords, and no __eq__, because each generated method costs every command start-up
time. `app.settings` lists all sections.

The home (`TWINRAVEN_HOME`, else the nearest `.twinraven` upwards) holds what TwinRaven writes; the file with the
settings lies beside it, in the project, or inside it. `TWINRAVEN__SECTION__KEY` overrides the file.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import Field, field, fields
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from twinraven.foundation.errors import InvalidSetting
from twinraven.foundation.homes import HOME_NAME, find_home
from twinraven.foundation.setting_kinds import SettingKind, mask_passwords
from twinraven.foundation.setting_sources import StatedSettings

FILE_NAME = "twinraven.yaml"


def setting(default: Any, kind: SettingKind, description: str) -> Any:
    """Declare a field of a section: its default, the kind of value it takes, and its description for people."""
    return field(default=default, metadata={"kind": kind, "description": description})


class SettingDescription(NamedTuple):
    """One setting as the docs and a new `twinraven.yaml` show it."""

    key: str
    type: str
    default: str
    description: str


class SettingRow(NamedTuple):
    """One effective setting; `origin` is default, file or environment."""

    key: str
    value: Any
    origin: str


class LoadedSettings(NamedTuple):
    """The sections of one home, and where they were stated."""

    home: Path
    sections: dict[str, Any]
    origins: Mapping[str, str]
    file: Path | None
    servers: Mapping[str, Any]


class SettingSections:
    """Loads and describes the sections of the settings, each a dataclass under its name."""

    def __init__(self, sections: Mapping[str, type[Any]]) -> None:
        self._sections = sections

    def load(self, home: Path | None, env: Mapping[str, str] | None) -> LoadedSettings:
        """Read the effective settings of a home: defaults, the file, the environment, each over the one before."""
        variables = os.environ if env is None else env
        place = home.expanduser().absolute() if home else find_home(Path.cwd(), variables) or Path.cwd() / HOME_NAME
        file = _find_file(place)
        stated = StatedSettings({key: _kind(item) for key, item in self._fields.items()})
        if file is not None:
            stated.read_file(file)
        stated.read_environment(variables)
        sections: dict[str, Any] = {name: section(**stated.of(name)) for name, section in self._sections.items()}
        return LoadedSettings(place, sections, stated.origins, file, stated.servers)

    def describe(self) -> list[SettingDescription]:
        """List every setting there is, for people."""
        return [
            SettingDescription(key, _kind(item).name, _default_text(item), item.metadata["description"])
            for key, item in self._fields.items()
        ]

    def rows(self, settings: object, origins: Mapping[str, str]) -> list[SettingRow]:
        """List the effective settings, with passwords in addresses masked; `settings` has the sections by name."""
        rows: list[SettingRow] = []
        for key in self._fields:
            section, _, name = key.partition(".")
            value: Any = getattr(getattr(settings, section), name)
            if isinstance(value, str) and name.endswith("url"):
                value = mask_passwords(value)
            rows.append(SettingRow(key, value, origins.get(key, "default")))
        return rows

    @cached_property
    def _fields(self) -> dict[str, Field[Any]]:
        return {f"{name}.{item.name}": item for name, section in self._sections.items() for item in fields(section)}


def _kind(item: Field[Any]) -> SettingKind:
    return item.metadata["kind"]


def _default_text(item: Field[Any]) -> str:
    if item.default is None or item.default == ():
        return "none"
    return str(item.default).lower() if isinstance(item.default, bool) else str(item.default)


def _find_file(home: Path) -> Path | None:
    try:
        found = [folder / FILE_NAME for folder in (home.parent, home) if (folder / FILE_NAME).is_file()]
    except OSError as error:
        raise InvalidSetting(
            f"the home {home} cannot be entered: {error.strerror}",
            field=FILE_NAME,
            fix=f"let your user read and write {home} and its files, or name another home with --home",
        ) from error
    if len(found) > 1:
        raise InvalidSetting(f"there are two settings files, {found[0]} and {found[1]}; keep one", field=FILE_NAME)
    return found[0] if found else None
