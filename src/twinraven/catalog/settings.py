"""Declares the settings of the catalogue: the section `tools` of `twinraven.yaml`."""

from __future__ import annotations

from dataclasses import dataclass

from twinraven.foundation.setting_kinds import TextList
from twinraven.foundation.settings import setting


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ToolsSettings:
    modules: tuple[str, ...] = setting((), TextList(), "Python modules to import for the tools they declare.")
