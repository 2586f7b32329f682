"""Reads providers from the settings; what cannot be understood is refused when the home is opened.

effects:
  providers:
    - {name: bank, url: "https://bank.example/payments", kinds: [transaction], token_variable: BANK_TOKEN}
    - {name: press, folder: posts, kinds: [publish], channels: [blog, "news*"]}
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final, cast

from twinraven.connectors import Credential, HttpTransport, parse_url
from twinraven.effects.model import EFFECT_KINDS, LOCAL_LEDGER, EffectKind
from twinraven.effects.ports import EffectProvider
from twinraven.effects.providers.files import FileOutbox
from twinraven.effects.providers.http import HttpProvider, HttpProviderConfig
from twinraven.foundation.errors import InvalidDefinition, InvalidSetting, PolicyViolation

_FIELDS: Final = (
    "name", "url", "folder", "kinds", "channels", "recognises_keys", "can_be_asked", "timeout_s", "token_variable",
)  # fmt: skip


def read_providers(
    stated: Iterable[Mapping[str, Any]], *, home: Path, transport: Callable[[], HttpTransport]
) -> list[EffectProvider]:
    """Read the providers of the settings, and at the end the outbox of the home, which is always there."""
    found: list[EffectProvider] = []
    for number, each in enumerate(stated, start=1):
        found.append(_read(f"effects.providers[{number}]", each, home, transport))
    found.append(FileOutbox(home / "outbox"))
    names = [provider.name for provider in found]
    doubled = next((name for name in names if names.count(name) > 1 or name == LOCAL_LEDGER), None)
    if doubled is not None:
        raise InvalidSetting(f"effects.providers: the name {doubled!r} is taken", field="effects.providers")
    return found


def read_channels(stated: Iterable[Mapping[str, Any]]) -> dict[str, tuple[str, ...]]:
    """Read the channels that each provider serves, as patterns with `*` and `?`; one that names none serves all."""
    found: dict[str, tuple[str, ...]] = {}
    for number, body in enumerate(stated, start=1):
        channels, field = body.get("channels"), f"effects.providers[{number}].channels"
        if channels is None:
            continue
        named = cast("list[Any]", channels) if isinstance(channels, list) else []
        if not named or not all(isinstance(each, str) and each for each in named):
            raise InvalidSetting(f"{field} must list the names of channels", field=field)
        found[str(body["name"])] = tuple(named)
    return found


def _read(where: str, body: Mapping[str, Any], home: Path, transport: Callable[[], HttpTransport]) -> EffectProvider:
    unknown = [name for name in body if name not in _FIELDS]
    if unknown:
        raise InvalidSetting(f"{where} has no field {unknown[0]!r}; use {', '.join(_FIELDS)}", field=where)
    name = body.get("name")
    if not isinstance(name, str) or not name:
        raise InvalidSetting(f"{where}.name must be text", field=f"{where}.name")
    kinds = _kinds(where, body.get("kinds"))
    folder = body.get("folder")
    if isinstance(folder, str) and "url" not in body:
        outbox = FileOutbox(home / folder, name=name)
        outbox.kinds = kinds
        return outbox
    url = body.get("url")
    try:
        parse_url(str(url), field=f"{where}.url")
    except (InvalidDefinition, PolicyViolation) as error:
        raise InvalidSetting(f"{where}.url: {error.message}", field=f"{where}.url") from None
    config = HttpProviderConfig(
        name=name,
        url=str(url),
        kinds=kinds,
        recognises_keys=_flag(where, body, "recognises_keys"),
        can_be_asked=_flag(where, body, "can_be_asked"),
        timeout_s=_seconds(where, body.get("timeout_s", 30.0)),
        credential=_credential(where, body.get("token_variable")),
    )
    return HttpProvider(config, transport())


def _kinds(where: str, stated: Any) -> frozenset[EffectKind]:
    kinds = cast("list[Any]", stated) if isinstance(stated, list) else []
    if not kinds or any(kind not in EFFECT_KINDS for kind in kinds):
        raise InvalidSetting(f"{where}.kinds must list some of {', '.join(EFFECT_KINDS)}", field=f"{where}.kinds")
    return frozenset(kinds)


def _flag(where: str, body: Mapping[str, Any], name: str) -> bool:
    value = body.get(name, True)
    if not isinstance(value, bool):
        raise InvalidSetting(f"{where}.{name} must be true or false", field=f"{where}.{name}")
    return value


def _seconds(where: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value <= 600:
        raise InvalidSetting(f"{where}.timeout_s must be a number of seconds up to 600", field=f"{where}.timeout_s")
    return float(value)


def _credential(where: str, variable: Any) -> Credential | None:
    """Return a token from the environment, where no file and no backup holds it."""
    if variable is None:
        return None
    token = os.environ.get(str(variable), "")
    if not token:
        raise InvalidSetting(f"{where}.token_variable: {variable} is not set", field=f"{where}.token_variable")
    return Credential.of("bearer", token)
