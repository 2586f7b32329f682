"""Settings: `twinraven.yaml`, then the environment, checked before anything starts.

A misspelt key that is silently ignored is found in production. Here every key has a type, limits, a default and a
description (`twinraven config` and the docs print them), and anything else is refused with the name of the key, of
the file or variable it stands in, and of what was probably meant.

The home (`TWINRAVEN_HOME`, else the nearest `.twinraven` upwards) holds what TwinRaven writes; the file with the
settings lies beside it, in the project, or inside it. `TWINRAVEN__SECTION__KEY` overrides the file.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import Field, dataclass, field, fields
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from twinraven.foundation.errors import InvalidSetting
from twinraven.foundation.homes import HOME_NAME, find_home
from twinraven.foundation.setting_kinds import (
    Choice,
    Flag,
    Number,
    Objects,
    SettingKind,
    Text,
    Texts,
    Whole,
    mask_passwords,
)
from twinraven.foundation.setting_sources import StatedSettings

FILE_NAME = "twinraven.yaml"


# No __repr__ is generated: it would print passwords. No __eq__ either: each method costs every command start-up time.


def _setting(default: Any, kind: SettingKind, description: str) -> Any:
    return field(default=default, metadata={"kind": kind, "description": description})


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class StorageSettings:
    """An empty `url` is replaced by the file in the home."""

    url: str = _setting(
        "", Text(), "Where everything is stored: sqlite:////absolute/file.db or postgresql://user@host/database."
    )
    admin_url: str | None = _setting(
        None, Text(optional=True), "Login that owns the Postgres schema and runs migrations; default: url."
    )


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class MuninnSettings:
    store_outputs: bool = _setting(
        True, Flag(), "Keep full outputs; without them no wiring can be inferred and nothing can be replayed."
    )
    summaries: str = _setting(
        "deterministic",
        Choice("deterministic", "model", "off"),
        "How output_summary is made; model: that of model.name.",
    )
    summary_chars: int = _setting(280, Whole(1, 100_000), "Longest output_summary, in characters.")
    queue_size: int = _setting(10_000, Whole(1, 10_000_000), "Events that may wait to be written before callers wait.")
    session_idle_gap_s: float = _setting(
        900.0, Number(0), "Idle seconds after which a session without an id of its own is a new one."
    )
    redact_high_entropy: bool = _setting(False, Flag(), "Redact strings that look random, besides known secrets.")


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class CallsSettings:
    python_threads: int = _setting(16, Whole(1, 10_000), "Threads that run synchronous Python tools.")
    default_timeout_ms: int = _setting(
        30_000, Whole(1, 86_400_000), "How long a tool may take that states no time-out of its own."
    )
    longest_ms: int = _setting(
        3_600_000, Whole(1, 86_400_000), "Longest time of a call whose time begins anew because it reports progress."
    )


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ToolsSettings:
    modules: tuple[str, ...] = _setting((), Texts(), "Python modules to import for the tools they declare.")


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ConnectorsSettings:
    allow_private: tuple[str, ...] = _setting(
        (), Texts(), "Private addresses and networks that services may be reached at, such as 10.0.0.0/8."
    )
    allow_programs: tuple[str, ...] = _setting(
        (), Texts(), "Beginnings of command lines that MCP services of the catalogue may start, such as npx -y NAME."
    )
    health_every_s: float = _setting(
        60.0, Number(0), "How often services are looked at while a door is open; 0: never."
    )
    health_timeout_s: float = _setting(
        10.0, Number(0.05, 600), "Seconds in which a service must answer such a look; a cold npx server may need 60."
    )


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class PolicySettings:
    rules: tuple[dict[str, Any], ...] = _setting((), Objects(), "What may be called; the first rule that fits decides.")
    approval_ttl_s: float = _setting(
        86_400.0, Number(1, 31_536_000), "Seconds after which a request for approval, granted or not, has expired."
    )
    checks: tuple[dict[str, Any], ...] = _setting(
        (), Objects(), "What the results of tasks are held against; a check that fires rejects, escalates or warns."
    )
    functions: tuple[str, ...] = _setting(
        (), Texts(), "Python functions that check results, as module:function; one that raises or hangs denies."
    )
    check_timeout_s: float = _setting(5.0, Number(0.05, 600), "Seconds in which such a function must answer.")
    judge: str = _setting(
        "house",
        Choice("house", "outside"),
        "Who judges results: the checks of this home, or judges outside.",
    )


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ServingSettings:
    require_keys: bool = _setting(
        False, Flag(), "Ask callers on this machine for a key, too; needed behind a reverse proxy."
    )
    allow_origins: tuple[str, ...] = _setting(
        (), Texts(), "Web origins whose pages may read answers (CORS), such as https://app.example, or *; none: off."
    )
    max_streams: int = _setting(
        256, Whole(1, 100_000), "Most live streams that one user has open at once, at all doors of a process together."
    )


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class GatewaySettings:
    """The servers themselves are in `Settings.servers`, apart, since they may hold credentials."""

    mode: str = _setting(
        "tools",
        Choice("tools", "search", "code"),
        "What clients are shown: every tool, a search and a call, or a search and a sandbox for scripts.",
    )
    prefix: bool = _setting(
        True, Flag(), "Name tools and prompts after their server; without, only those whose name another one has."
    )
    sampling: bool = _setting(True, Flag(), "Let upstream servers ask the client's model for a completion.")
    elicitation: bool = _setting(True, Flag(), "Let upstream servers ask the person at the client for input.")
    roots: bool = _setting(True, Flag(), "Let upstream servers ask the client for its folders.")
    ask_s: float = _setting(600.0, Number(1, 86_400), "How long a client may take to answer a server's question.")
    max_questions: int = _setting(16, Whole(0, 1_000), "Most questions that one call may ask its client.")
    batch: bool = _setting(
        True, Flag(), "Offer batch_reads, one call that makes several reads; not in code mode, where scripts do."
    )
    start_s: float = _setting(
        4.0, Number(0, 600), "How long a client's first questions wait for servers that start; some give up after 5 s."
    )
    await_reads: bool = _setting(
        False, Flag(), "Answer a read only when its record is on disk; writes are always recorded first."
    )
    max_message_bytes: int = _setting(
        16_777_216, Whole(1_024, 1_073_741_824), "Longest message of an upstream server; a longer one ends it."
    )
    refresh_s: float = _setting(
        300.0, Number(1), "How often an upstream server's tools are read again without being told to."
    )
    quarantine: str = _setting(
        "schema",
        Choice("schema", "any"),
        "Which changes of an upstream tool's definition take it away until somebody accepts them.",
    )
    guessed_gap_s: float = _setting(
        60.0, Number(0), "Idle seconds after which a session that a client did not name is over."
    )
    repeat_reads_s: float = _setting(
        0.0,
        Number(0, 86_400),
        "Seconds for which a session's repeated read, with no write since, is answered from its record; 0: never.",
    )


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class CodeSettings:
    """What one script of `gateway.mode: code` may use; whatever goes beyond is stopped."""

    max_seconds: float = _setting(60.0, Number(0.1, 3_600), "Longest time a script may take, its calls included.")
    max_cpu_seconds: float = _setting(5.0, Number(0.05, 600), "Longest time it may compute between its calls, in all.")
    max_calls: int = _setting(200, Whole(1, 100_000), "Most tool calls and searches of a script.")
    max_memory_bytes: int = _setting(67_108_864, Whole(1_048_576, 4_294_967_296), "Most memory that it may fill.")
    max_depth: int = _setting(200, Whole(10, 1_000), "Deepest recursion of its functions.")
    max_code_chars: int = _setting(65_536, Whole(1, 1_048_576), "Longest script, in characters.")
    max_output_bytes: int = _setting(262_144, Whole(64, 16_777_216), "Longest result, as JSON.")
    max_print_bytes: int = _setting(16_384, Whole(0, 16_777_216), "How much of what it prints is kept.")
    max_scripts: int = _setting(4, Whole(1, 256), "Scripts that run at once, each in a process of its own; more wait.")


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class MiningSettings:
    algorithm: str = _setting(
        "contiguous",
        Choice("contiguous", "prefixspan", "gsp"),
        "Chains without gaps, with gaps, or with gaps of bounded time.",
    )
    min_support: float = _setting(0.005, Number(0, 1), "Least share of sessions in which a chain occurs.")
    min_sessions: int = _setting(
        2, Whole(1), "Fewest sessions in which a chain occurs; learning needs 8 whatever stands here."
    )
    min_confidence: float = _setting(0.0, Number(0, 1), "Least mean transition probability along a chain.")
    min_length: int = _setting(2, Whole(2, 100), "Fewest tools in a chain.")
    max_length: int = _setting(5, Whole(2, 50), "Most tools in a chain.")
    max_gap_ms: int | None = _setting(
        None,
        Whole(0, optional=True),
        "Longest idle time between two tools of a chain; for gsp, which needs it.",
    )
    window_days: int | None = _setting(None, Whole(1, optional=True), "Only calls of the last so many days; none: all.")
    last_sessions: int | None = _setting(
        None, Whole(1, optional=True), "Only the so many sessions that began last; none: all."
    )
    sample_sessions: int = _setting(
        20_000,
        Whole(100),
        "Most sessions that learning reads in full; of more, a uniform sample by hash of id.",
    )
    max_session_calls: int = _setting(
        2_000, Whole(10), "Most calls of one session that learning reads in full, from its first on."
    )
    max_patterns: int = _setting(
        100_000, Whole(100), "Most chains a run may hold; of more, only the more frequent are looked for."
    )
    max_work: int = _setting(
        500_000_000,
        Whole(100_000),
        "Most ends of gapped chains a run may look at, likewise.",
    )


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ValidationSettings:
    similarity: str = _setting(
        "exact_match", Choice("exact_match", "cosine_tfidf"), "How a replayed output is compared with the recorded one."
    )
    threshold: float = _setting(0.85, Number(0, 1), "Least mean similarity with which a tool passes.")
    min_uses: int = _setting(12, Whole(1), "Sessions with a use below which the evidence is called too little.")
    max_latency_ratio: float = _setting(
        1.0, Number(0), "Most a tool may take, relative to the calls it replaces, and pass."
    )


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ModelSettings:
    """The model that plans, conversations, judges and learning ask; without `name` there is none."""

    name: str | None = _setting(None, Text(optional=True), "Model that may be asked, such as gpt-5-mini; none: nobody.")
    protocol: str = _setting("openai", Choice("openai", "anthropic"), "How the model is spoken to.")
    url: str | None = _setting(
        None, Text(optional=True), "Where it is, such as http://127.0.0.1:8080/v1; none: its provider's own address."
    )
    secret: str | None = _setting(
        None, Text(optional=True), "Name of the secret in the vault that holds its key; none: it asks for no key."
    )
    timeout_s: float = _setting(60.0, Number(0.1, 600), "How long one question may take.")
    max_tokens: int = _setting(2_048, Whole(64, 100_000), "Longest answer, in tokens.")
    temperature: float | None = _setting(
        None, Number(0, 2, optional=True), "How freely it speaks; none: the provider's own."
    )
    input_price: float | None = _setting(
        None, Number(0, optional=True), "What a million tokens of a question cost; needs output_price."
    )
    output_price: float | None = _setting(
        None, Number(0, optional=True), "What a million tokens of an answer cost; needs input_price."
    )
    currency: str = _setting("USD", Text(), "The currency of both prices.")


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class LearningSettings:
    """Without `ask_model`, learning asks nobody."""

    max_tools: int = _setting(30, Whole(1, 1_000), "Most tools that a round proposes, the most valuable first.")
    max_extra_calls: float = _setting(
        0.22,
        Number(0, 10),
        "Most calls that nobody needed which all tools of a round may make, as a share of the recorded calls.",
    )
    list_writes: bool = _setting(
        False, Flag(), "Propose tools that write once for each element of a list that a read gave, too."
    )

    ask_model: bool = _setting(
        False, Flag(), "Let the configured model word drafts and propose sources for what stayed open."
    )
    model_budget_s: float = _setting(120.0, Number(0.1, 86_400), "How long all questions of a round may take.")
    model_max_calls: int = _setting(10, Whole(1, 1_000), "Most drafts a round may ask about.")


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class RegistrySettings:
    storage_dir: str = _setting("tools/generated", Text(), "Tool definition directory, relative to the home.")
    auto_retire_after_days: int = _setting(30, Whole(1), "Retire tools unused for so many days.")
    auto_retire_on_drift: bool = _setting(False, Flag(), "Retire on drift instead of flagging.")
    drift_threshold: float = _setting(0.5, Number(0, 1), "Least share of its first support that a chain keeps.")
    failure_spike_threshold: float = _setting(0.3, Number(0, 1), "Recent failure rate above which a tool is retired.")
    maintenance_schedule: str = _setting(
        "weekly", Choice("off", "hourly", "daily", "weekly", "monthly"), "How often staleness and drift are checked."
    )
    require_approval: bool = _setting(True, Flag(), "A tool that passed waits for a person before it is promoted.")


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class EngineSettings:
    workers: bool = _setting(True, Flag(), "Work on runs in `twinraven up`, too; `twinraven worker` always does.")
    dispatcher: str = _setting(
        "embedded", Choice("embedded", "temporal"), "Who decides which worker advances a run: our tables, or Temporal."
    )
    temporal_address: str = _setting("127.0.0.1:7233", Text(), "Where Temporal is, if it dispatches.")
    temporal_namespace: str = _setting("default", Text(), "Temporal's namespace for runs.")
    pools: tuple[dict[str, Any], ...] = _setting(
        (), Objects(), "Pools as {queue, slots, per_second}; the queue is runs, or a worker type such as rest_api."
    )
    lease_s: float = _setting(
        30.0, Number(0.5, 3_600), "Seconds without a heartbeat after which a worker's runs are taken over."
    )
    poll_s: float = _setting(0.5, Number(0.01, 60), "How often a worker looks for runs that others made due.")
    drain_s: float = _setting(30.0, Number(0, 3_600), "How long a worker that is stopped lets calls under way end.")
    max_deaths: int = _setting(5, Whole(1, 1_000), "Workers that may die with a run before it is set aside.")
    keep_days: int | None = _setting(
        30, Whole(1, optional=True), "Days for which runs that ended are kept; none: for ever."
    )
    learning_schedule: str = _setting(
        "off", Choice("off", "daily", "weekly", "monthly"), "How often workers start a round of learning, at night."
    )


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class PlansSettings:
    ttl: int = _setting(20, Whole(1, 1_000), "How often a plan may ask the model, if its caller does not say.")
    offer_tool: bool = _setting(
        True, Flag(), "Offer run_plan to every caller as a built-in tool, where a model is configured."
    )


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class KnowledgeSettings:
    tools: bool = _setting(
        False, Flag(), "Offer memory_search, memory_remember and memory_entities to every caller, as built-in tools."
    )
    duplicate_similarity: float = _setting(
        0.85, Number(0.5, 1), "How alike two entities must be for a proposal to merge them."
    )
    embedder: str = _setting(
        "auto",
        Choice("auto", "off", "installed"),
        "Whether search also compares vectors; auto: where the extra `embeddings` is installed.",
    )
    extraction: str = _setting(
        "auto",
        Choice("auto", "rules", "spacy", "model"),
        "What extracts entities and facts besides rules; auto: a spaCy pipeline and a model, where there are any.",
    )
    spacy_pipeline: str = _setting(
        "en_core_web_sm",
        Text(),
        "The spaCy pipeline that names entities: an installed one (extra `spacy`) or a folder.",
    )
    graph_url: str | None = _setting(
        None,
        Text(optional=True),
        "A graph that holds episodes as well (extra `graphiti`), such as falkor://127.0.0.1:6379; none: none.",
    )
    enrichment_edge_threshold: int = _setting(
        5, Whole(1, 1_000_000), "How many episodes must mention an entity before it is enriched in the background."
    )
    compression_process: str = _setting(
        "compress_memory", Text(), "The process that sums up parts of a dialogue; the built-in one unless you say so."
    )
    reflection_process: str = _setting(
        "reflect_memory", Text(), "The process that reconsiders the notes about a user; the built-in one by default."
    )
    introspection_notes: int = _setting(10, Whole(1, 1_000), "How many notes the carousel of each user holds.")
    introspection_compression_threshold: int = _setting(
        5, Whole(1, 20), "After how many compressions of a conversation the notes are reconsidered."
    )


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ConversationsSettings:
    token_budget: int = _setting(
        32_000, Whole(100, 100_000_000), "Tokens of a working memory; what does not fit is left out in a stated order."
    )
    answer_timeout_s: float = _setting(600.0, Number(1, 86_400), "How long an answer may take before it fails.")


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class EffectsSettings:
    providers: tuple[dict[str, Any], ...] = _setting(
        (),
        Objects(),
        "Providers as {name, url, kinds} or {name, folder, kinds}; the outbox of the home is always there.",
    )
    disclosure: str | None = _setting(
        None, Text(optional=True), "Words put under every publication that brings none of its own; none: nothing."
    )
    first_pause_s: float = _setting(
        1.0, Number(0.01, 3_600), "Pause after a first attempt that reached nobody; each further one is twice as long."
    )


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class RetentionSettings:
    days: int | None = _setting(None, Whole(1, optional=True), "Sessions older than this may be pruned; none: kept.")


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


class SettingDescription(NamedTuple):
    key: str
    type: str
    default: str
    description: str


class SettingRow(NamedTuple):
    """One effective setting; `origin` is default, file or environment."""

    key: str
    value: Any
    origin: str


_SECTIONS: dict[str, type[Any]] = {
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


def load_settings(home: Path | None = None, env: Mapping[str, str] | None = None) -> Settings:
    """The effective settings of a home: defaults, the file, the environment, each over the one before."""
    variables = os.environ if env is None else env
    place = home.expanduser().absolute() if home else find_home(Path.cwd(), variables) or Path.cwd() / HOME_NAME
    file = _find_file(place)
    stated = StatedSettings({key: _kind(item) for key, item in _all_fields().items()})
    if file is not None:
        stated.read_file(file)
    stated.read_environment(variables)
    sections: dict[str, Any] = {name: section(**stated.of(name)) for name, section in _SECTIONS.items()}
    if not sections["storage"].url:
        sections["storage"] = StorageSettings(f"sqlite:///{place / 'twinraven.db'}", sections["storage"].admin_url)
    _check_together(sections["mining"], sections["model"])
    return Settings(home=place, origins=stated.origins, file=file, servers=stated.servers, **sections)


def describe_settings() -> list[SettingDescription]:
    """Every setting there is, for people."""
    return [
        SettingDescription(key, _kind(item).name, _default_text(key, item), item.metadata["description"])
        for key, item in _all_fields().items()
    ]


def settings_as_rows(settings: Settings) -> list[SettingRow]:
    """The effective settings, passwords in addresses masked."""
    rows: list[SettingRow] = []
    for key in _all_fields():
        section, _, name = key.partition(".")
        value: Any = getattr(getattr(settings, section), name)
        if isinstance(value, str) and name.endswith("url"):
            value = mask_passwords(value)
        rows.append(SettingRow(key, value, settings.origins.get(key, "default")))
    return rows


def _check_together(mining: MiningSettings, model: ModelSettings) -> None:
    if (model.input_price is None) != (model.output_price is None):
        raise InvalidSetting("model.input_price and model.output_price go together", field="model.input_price")
    if mining.min_length > mining.max_length:
        raise InvalidSetting(
            f"mining.min_length ({mining.min_length}) is above mining.max_length ({mining.max_length})",
            field="mining.min_length",
        )


@cache
def _all_fields() -> dict[str, Field[Any]]:
    return {f"{name}.{item.name}": item for name, section in _SECTIONS.items() for item in fields(section)}


def _kind(item: Field[Any]) -> SettingKind:
    return item.metadata["kind"]


def _default_text(key: str, item: Field[Any]) -> str:
    if key == "storage.url":
        return "sqlite:///<home>/twinraven.db"
    if item.default is None or item.default == ():
        return "none"
    return str(item.default).lower() if isinstance(item.default, bool) else str(item.default)


def _find_file(home: Path) -> Path | None:
    found = [folder / FILE_NAME for folder in (home.parent, home) if (folder / FILE_NAME).is_file()]
    if len(found) > 1:
        raise InvalidSetting(f"there are two settings files, {found[0]} and {found[1]}; keep one", field=FILE_NAME)
    return found[0] if found else None
