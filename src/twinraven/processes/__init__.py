"""Processes: work that people define as data, saved as versions that never change, and run durably.

`Process.from_json` reads a definition, `check_process` says whether it makes sense, `compile_process` turns it into the
flow that runs. `Processes` saves them, `ProcessTools` offers them in the catalogue, `ProcessConnector` serves calls.

Names are resolved on first use: a command that needs none of them does not pay for them.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from twinraven.processes.checks import check_process
    from twinraven.processes.compile import compile_process
    from twinraven.processes.connector import ProcessConnector
    from twinraven.processes.differences import Difference
    from twinraven.processes.drawing import draw_process
    from twinraven.processes.model import Process, ProcessStep, ProcessVersion, StepExecution, StepOutput
    from twinraven.processes.opening import OpenedProcess
    from twinraven.processes.service import Processes
    from twinraven.processes.sql import tool_callers
    from twinraven.processes.tools import ProcessTools

__all__ = [
    "Difference",
    "OpenedProcess",
    "Process",
    "ProcessConnector",
    "ProcessStep",
    "ProcessTools",
    "ProcessVersion",
    "Processes",
    "StepExecution",
    "StepOutput",
    "check_process",
    "compile_process",
    "draw_process",
    "tool_callers",
]

_HOMES = {
    "checks": ("check_process",),
    "compile": ("compile_process",),
    "connector": ("ProcessConnector",),
    "differences": ("Difference",),
    "drawing": ("draw_process",),
    "model": ("Process", "ProcessStep", "ProcessVersion", "StepExecution", "StepOutput"),
    "opening": ("OpenedProcess",),
    "service": ("Processes",),
    "sql": ("tool_callers",),
    "tools": ("ProcessTools",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'twinraven.processes' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"twinraven.processes.{_HOME_OF[name]}"), name)
    return value
