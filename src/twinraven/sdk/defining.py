"""Asks for processes: check, save as a version, look, compare, delete, run."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from typing import Any

from twinraven.foundation.ids import new_id
from twinraven.sdk.exchange import RequestSpec, path_of
from twinraven.sdk.model import JsonObject, ProcessInfo, RunInfo
from twinraven.sdk.reading import read
from twinraven.sdk.server_requests import ServerRequests, stated


class ProcessOperations(ServerRequests):
    """Work that people define as data."""

    async def check_process(self, definition: JsonObject) -> int:
        """Raise what is wrong with a process; says how many steps a run of it has."""
        ask = RequestSpec("POST", path_of("process-checks"), body={"definition": definition})
        return int((await self._exchange.json(ask))["steps"])

    async def save_process(self, definition: JsonObject, *, expected_version: int | None = None) -> ProcessInfo:
        """Save a process as a new version, where `expected_version` is in force."""
        body = {"definition": definition, **stated({"expected_version": expected_version})}
        return read(ProcessInfo, await self._exchange.json(RequestSpec("POST", path_of("processes"), body=body)))

    def processes(self) -> AsyncGenerator[ProcessInfo]:
        """Processes in force, by id."""
        return self._list(ProcessInfo, "processes")

    async def process(self, process_id: str, *, version: int | None = None) -> ProcessInfo:
        """Return a process in force, or one of its versions."""
        ask = RequestSpec("GET", path_of("processes", process_id), query=stated({"version": version}))
        return read(ProcessInfo, await self._exchange.json(ask))

    def process_versions(self, process_id: str) -> AsyncGenerator[ProcessInfo]:
        """Return all versions of a process, newest first."""
        return self._list(ProcessInfo, "processes", process_id, "versions")

    async def process_differences(
        self, process_id: str, *, before: int | None = None, after: int | None = None
    ) -> list[JsonObject]:
        """Compare two versions of a process: place, before, after."""
        ask = RequestSpec(
            "GET", path_of("processes", process_id, "diff"), query=stated({"before": before, "after": after})
        )
        return list((await self._exchange.json(ask))["items"])

    async def process_graph(self, process_id: str, *, version: int | None = None) -> str:
        """Return the graph of a process as SVG."""
        ask = RequestSpec("GET", path_of("processes", process_id, "graph"), query=stated({"version": version}))
        return str((await self._exchange.json(ask))["svg"])

    async def open_as_process(self, tool_id: str) -> JsonObject:
        """Open a learned tool as a process to edit (`definition`), and what a process cannot say of it (`left_out`)."""
        return await self._exchange.json(RequestSpec("GET", path_of("learned-tools", tool_id, "process")))

    async def delete_process(self, process_id: str) -> None:
        """Delete a process that nothing refers to; its versions stay."""
        await self._exchange.send(RequestSpec("DELETE", path_of("processes", process_id)))

    async def run_process(
        self,
        process_id: str,
        parameters: Mapping[str, Any] | None = None,
        *,
        run_id: str | None = None,
        timeout_s: float | None = None,
    ) -> RunInfo:
        """Start a durable run of a process; without an id of its own it gets one, so that sending it again is one."""
        body = {"parameters": dict(parameters or {}), "run_id": run_id or new_id(), **stated({"timeout_s": timeout_s})}
        ask = RequestSpec("POST", path_of("processes", process_id, "runs"), body=body)
        return read(RunInfo, await self._exchange.json(ask))
