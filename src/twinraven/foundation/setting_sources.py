"""Reads settings from their sources: the file, and the environment over it.

Both are read against what there is to set, so that nothing is stated in vain: a name nobody knows, a value that does
not fit and a setting given twice are refused where they stand. Nothing here knows what a setting is for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, cast

from twinraven.foundation.errors import InvalidSetting
from twinraven.foundation.setting_kinds import SettingKind, UnfitValue, mask_passwords

VARIABLE_PREFIX = "TWINRAVEN__"


class StatedSettings:
    """The settings that were stated, each with its source; later sources override earlier ones."""

    def __init__(self, kinds: Mapping[str, SettingKind]) -> None:
        """`kinds` has every setting there is, as `section.name`."""
        self._kinds = kinds
        self._sections = dict.fromkeys(key.partition(".")[0] for key in kinds)
        self.values: dict[str, Any] = {}
        self.origins: dict[str, str] = {}
        self.servers: dict[str, Any] = {}

    def of(self, section: str) -> dict[str, Any]:
        """Return the keyword arguments of a section's class."""
        prefix = f"{section}."
        return {key.removeprefix(prefix): value for key, value in self.values.items() if key.startswith(prefix)}

    def read_file(self, file: Path) -> None:
        for section, members in _mapping(_parse_yaml(file), "the file", file).items():
            if section == "mcpServers":
                self._take_servers(members, section, file)
                continue
            if section not in self._sections:
                raise _unknown(f"section {section!r}", str(section), list(self._sections), str(file))
            for name, value in _mapping(members, f"section {section!r}", file).items():
                key = f"{section}.{name}"
                if key == "gateway.servers":
                    self._take_servers(value, key, file)
                    continue
                if key not in self._kinds:
                    raise _unknown(f"setting {key!r}", key, list(self._kinds), str(file))
                self._take(key, value, f"{key} in {file}", self._kinds[key].from_file)
                self.origins[key] = "file"

    def read_environment(self, env: Mapping[str, str]) -> None:
        known = {_variable(key): key for key in self._kinds}
        seen: dict[str, str] = {}
        for name in sorted(env):
            variable = name.upper()
            if not variable.startswith(VARIABLE_PREFIX):
                continue
            if variable not in known:
                raise _unknown(f"setting {name!r}", variable, list(known), "the environment")
            if variable in seen:
                raise InvalidSetting(f"{seen[variable]} and {name} are one setting; unset one of them", field=name)
            seen[variable] = name
            key = known[variable]
            self._take(key, env[name], f"{name} in the environment", self._kinds[key].from_text)
            self.origins[key] = "environment"

    def _take_servers(self, found: Any, key: str, file: Path) -> None:
        for name, server in _mapping(found, key, file).items():
            if name in self.servers:
                raise InvalidSetting(f"{file} has two servers named {name!r}; rename one", field=key)
            self.servers[str(name)] = server

    def _take(self, key: str, value: Any, where: str, read: Callable[[Any], Any]) -> None:
        try:
            self.values[key] = read(value)
        except UnfitValue as error:
            shown = mask_passwords(repr(value)[:100])
            raise InvalidSetting(f"{where} is {shown}; expected: {error}", field=key) from None


def _variable(key: str) -> str:
    return VARIABLE_PREFIX + key.replace(".", "__").upper()


def _parse_yaml(file: Path) -> Any:
    try:
        text = file.read_text("utf-8")
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise InvalidSetting(f"{file} cannot be read: {why}", field=file.name) from None
    if all(not line.strip() or line.lstrip().startswith("#") for line in text.splitlines()):
        # As `init` writes it: nothing but comments, which is not worth importing a parser at every command.
        return None
    import yaml

    try:
        return yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        from twinraven.foundation.yaml_nodes import yaml_problem

        raise InvalidSetting(f"{file} cannot be read: {yaml_problem(error)}", field=file.name) from None


def _mapping(found: Any, what: str, file: Path) -> dict[Any, Any]:
    if found is None:
        return {}
    if not isinstance(found, dict):
        raise InvalidSetting(f"{what} in {file} must hold names and values, not {repr(found)[:100]}", field=file.name)
    return cast("dict[Any, Any]", found)


def _unknown(what: str, name: str, known: list[str], where: str) -> InvalidSetting:
    from difflib import get_close_matches

    near = get_close_matches(name, known, n=3, cutoff=0.6)
    advice = f"did you mean {' or '.join(near)}?" if near else f"there are {', '.join(known)}"
    return InvalidSetting(f"unknown {what} in {where}; {advice}", field=name, near=near)
