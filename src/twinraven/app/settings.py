"""Assembles the settings of a home from the sections that its contexts declare, and checks those that go together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from twinraven.app.door_settings import CodeSettings, GatewaySettings, ServingSettings
from twinraven.calls import CallsSettings, PolicySettings
from twinraven.catalog import ToolsSettings
from twinraven.connectors import ConnectorsSettings
from twinraven.conversations import ConversationsSettings
from twinraven.effects import EffectsSettings
from twinraven.engine import EngineSettings
from twinraven.foundation.errors import InvalidSetting
from twinraven.foundation.settings import SettingDescription, SettingRow, SettingSections
from twinraven.huginn import LearningSettings, MiningSettings, ValidationSettings
from twinraven.knowledge import KnowledgeSettings
from twinraven.models import ModelSettings
from twinraven.muninn import MuninnSettings, RetentionSettings
from twinraven.plans import PlansSettings
from twinraven.registry import RegistrySettings
from twinraven.storage import StorageSettings


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Settings:
    """All settings of one home; `origins` says which keys came from the file or the environment."""

    home: Path
    storage: StorageSettings
    muninn: MuninnSettings = field(default_factory=MuninnSettings)
    calls: CallsSettings = field(default_factory=CallsSettings)
    tools: ToolsSettings = field(default_factory=ToolsSettings)
    connectors: ConnectorsSettings = field(default_factory=ConnectorsSettings)
    policy: PolicySettings = field(default_factory=PolicySettings)
    serving: ServingSettings = field(default_factory=ServingSettings)
    gateway: GatewaySettings = field(default_factory=GatewaySettings)
    code: CodeSettings = field(default_factory=CodeSettings)
    mining: MiningSettings = field(default_factory=MiningSettings)
    validation: ValidationSettings = field(default_factory=ValidationSettings)
    model: ModelSettings = field(default_factory=ModelSettings)
    learning: LearningSettings = field(default_factory=LearningSettings)
    registry: RegistrySettings = field(default_factory=RegistrySettings)
    engine: EngineSettings = field(default_factory=EngineSettings)
    plans: PlansSettings = field(default_factory=PlansSettings)
    knowledge: KnowledgeSettings = field(default_factory=KnowledgeSettings)
    conversations: ConversationsSettings = field(default_factory=ConversationsSettings)
    effects: EffectsSettings = field(default_factory=EffectsSettings)
    retention: RetentionSettings = field(default_factory=RetentionSettings)
    origins: Mapping[str, str] = field(default_factory=dict[str, str])
    file: Path | None = None
    servers: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """The file's `mcpServers` (or `gateway.servers`), as it stands there; never shown."""


_SECTIONS = SettingSections(
    {
        "storage": StorageSettings,
        "muninn": MuninnSettings,
        "calls": CallsSettings,
        "tools": ToolsSettings,
        "connectors": ConnectorsSettings,
        "policy": PolicySettings,
        "serving": ServingSettings,
        "gateway": GatewaySettings,
        "code": CodeSettings,
        "mining": MiningSettings,
        "validation": ValidationSettings,
        "model": ModelSettings,
        "learning": LearningSettings,
        "registry": RegistrySettings,
        "engine": EngineSettings,
        "plans": PlansSettings,
        "knowledge": KnowledgeSettings,
        "conversations": ConversationsSettings,
        "effects": EffectsSettings,
        "retention": RetentionSettings,
    }
)


def load_settings(home: Path | None = None, env: Mapping[str, str] | None = None) -> Settings:
    """Read the effective settings of a home: defaults, the file, the environment, each over the one before."""
    loaded = _SECTIONS.load(home, env)
    sections = loaded.sections
    if not sections["storage"].url:
        sections["storage"] = StorageSettings(
            f"sqlite:///{loaded.home / 'twinraven.db'}", sections["storage"].admin_url
        )
    _check_together(sections["mining"], sections["model"])
    return Settings(home=loaded.home, origins=loaded.origins, file=loaded.file, servers=loaded.servers, **sections)


def describe_settings() -> list[SettingDescription]:
    """List every setting there is, for people."""
    return [
        row._replace(default="sqlite:///<home>/twinraven.db") if row.key == "storage.url" else row
        for row in _SECTIONS.describe()
    ]


def settings_as_rows(settings: Settings) -> list[SettingRow]:
    """List the effective settings, with passwords in addresses masked."""
    return _SECTIONS.rows(settings, settings.origins)


def _check_together(mining: MiningSettings, model: ModelSettings) -> None:
    if (model.input_price is None) != (model.output_price is None):
        raise InvalidSetting("model.input_price and model.output_price go together", field="model.input_price")
    if mining.min_length > mining.max_length:
        raise InvalidSetting(
            f"mining.min_length ({mining.min_length}) is above mining.max_length ({mining.max_length})",
            field="mining.min_length",
        )
