"""Wires a home folder and its settings into a running TwinRaven: the only composition root.

Every door (command line, gateway, API, demo, tests) opens the same object and finds the same parts on it. One file per
group of parts says how each is made and from what (`foundations`, `memory`, `catalogue`, `calling`, `learning`); `home`
names them, one line each. Parts are made on first use, so a command that only lists sessions pays for nothing else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from twinraven.foundation.lazy import lazy_names

if TYPE_CHECKING:
    from twinraven.app.door_settings import CodeSettings, GatewaySettings, ServingSettings
    from twinraven.app.examination import (
        ExaminationFinding,
        examine_database,
        examine_folder,
        examine_ground,
        examine_upstream_tools,
    )
    from twinraven.app.home import TwinRaven, open_home
    from twinraven.app.settings import Settings, describe_settings, load_settings, settings_as_rows

__all__ = [
    "CodeSettings",
    "ExaminationFinding",
    "GatewaySettings",
    "ServingSettings",
    "Settings",
    "TwinRaven",
    "describe_settings",
    "examine_database",
    "examine_folder",
    "examine_ground",
    "examine_upstream_tools",
    "load_settings",
    "open_home",
    "settings_as_rows",
]

__getattr__ = lazy_names(__name__)
