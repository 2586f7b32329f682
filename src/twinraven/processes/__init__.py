"""Keeps processes: work that people define as data, saved as immutable versions, and run durably.

`Process.from_json` reads a definition, `check_process` says whether it makes sense, `compile_process` turns it into the
flow that runs. `Processes` saves them, `ProcessTools` offers them in the catalogue, `ProcessConnector` serves calls.

Names are resolved on first use: a command that needs none of them does not pay for them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from twinraven.foundation.lazy import lazy_names

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


__getattr__ = lazy_names(__name__)
