"""Declares the settings of connectors: the section `connectors` of `twinraven.yaml`."""

from __future__ import annotations

from dataclasses import dataclass

from twinraven.foundation.setting_kinds import Number, TextList
from twinraven.foundation.settings import setting


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ConnectorsSettings:
    allow_private: tuple[str, ...] = setting(
        (), TextList(), "Private addresses and networks that services may be reached at, such as 10.0.0.0/8."
    )
    allow_programs: tuple[str, ...] = setting(
        (), TextList(), "Beginnings of command lines that MCP services of the catalogue may start, such as npx -y NAME."
    )
    health_every_s: float = setting(60.0, Number(0), "How often services are looked at while a door is open; 0: never.")
    health_timeout_s: float = setting(
        10.0, Number(0.05, 600), "Seconds in which a service must answer such a look; a cold npx server may need 60."
    )
