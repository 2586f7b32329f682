"""Declares the settings of the doors: the sections `serving`, `gateway` and `code` of `twinraven.yaml`.

The doors stand above the composition root, which has to know these sections to load them and to open upstream servers.
"""

from __future__ import annotations

from dataclasses import dataclass

from twinraven.foundation.setting_kinds import Choice, Flag, Integer, Number, TextList
from twinraven.foundation.settings import setting


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ServingSettings:
    require_keys: bool = setting(
        False, Flag(), "Ask callers on this machine for a key, too; needed behind a reverse proxy."
    )
    allow_origins: tuple[str, ...] = setting(
        (), TextList(), "Web origins whose pages may read answers (CORS), such as https://app.example, or *; none: off."
    )
    max_streams: int = setting(
        256,
        Integer(1, 100_000),
        "Most live streams that one user has open at once, at all doors of a process together.",
    )


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class GatewaySettings:
    """The servers themselves are in `Settings.servers`, apart, since they may hold credentials."""

    mode: str = setting(
        "tools",
        Choice("tools", "search", "code"),
        "What clients are shown: every tool, a search and a call, or a search and a sandbox for scripts.",
    )
    prefix: bool = setting(
        True, Flag(), "Name tools and prompts after their server; without, only those whose name another one has."
    )
    sampling: bool = setting(True, Flag(), "Let upstream servers ask the client's model for a completion.")
    elicitation: bool = setting(True, Flag(), "Let upstream servers ask the person at the client for input.")
    roots: bool = setting(True, Flag(), "Let upstream servers ask the client for its folders.")
    ask_s: float = setting(600.0, Number(1, 86_400), "How long a client may take to answer a server's question.")
    max_questions: int = setting(16, Integer(0, 1_000), "Most questions that one call may ask its client.")
    batch: bool = setting(
        True, Flag(), "Offer batch_reads, one call that makes several reads; not in code mode, where scripts do."
    )
    start_s: float = setting(
        4.0, Number(0, 600), "How long a client's first questions wait for servers that start; some give up after 5 s."
    )
    await_reads: bool = setting(
        False, Flag(), "Answer a read only when its record is on disk; writes are always recorded first."
    )
    max_message_bytes: int = setting(
        16_777_216, Integer(1_024, 1_073_741_824), "Longest message of an upstream server; a longer one ends it."
    )
    refresh_s: float = setting(
        300.0, Number(1), "How often an upstream server's tools are read again without being told to."
    )
    quarantine: str = setting(
        "schema",
        Choice("schema", "any"),
        "Which changes of an upstream tool's definition take it away until somebody accepts them.",
    )
    guessed_gap_s: float = setting(
        60.0, Number(0), "Idle seconds after which a session that a client did not name is over."
    )
    repeat_reads_s: float = setting(
        0.0,
        Number(0, 86_400),
        "Seconds for which a session's repeated read, with no write since, is answered from its record; 0: never.",
    )


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class CodeSettings:
    """What one script of `gateway.mode: code` may use; whatever goes beyond is stopped."""

    max_seconds: float = setting(60.0, Number(0.1, 3_600), "Longest time a script may take, its calls included.")
    max_cpu_seconds: float = setting(5.0, Number(0.05, 600), "Longest time it may compute between its calls, in all.")
    max_calls: int = setting(200, Integer(1, 100_000), "Most tool calls and searches of a script.")
    max_memory_bytes: int = setting(67_108_864, Integer(1_048_576, 4_294_967_296), "Most memory that it may fill.")
    max_depth: int = setting(200, Integer(10, 1_000), "Deepest recursion of its functions.")
    max_code_chars: int = setting(65_536, Integer(1, 1_048_576), "Longest script, in characters.")
    max_output_bytes: int = setting(262_144, Integer(64, 16_777_216), "Longest result, as JSON.")
    max_print_bytes: int = setting(16_384, Integer(0, 16_777_216), "How much of what it prints is kept.")
    max_scripts: int = setting(4, Integer(1, 256), "Scripts that run at once, each in a process of its own; more wait.")
