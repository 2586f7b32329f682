"""Runs an upstream server as a child process: starts it, talks over its pipes, and ends its whole process group.

It gets the few variables of the environment that a program needs to run at all and those its configuration names, and
nothing else of ours. What it writes to stderr is kept only as last words, to say why it ended.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Final, cast

from mcp.client.stdio import get_default_environment

from twinraven.connectors.mcp.guard import Guard
from twinraven.connectors.mcp.lines import LineDispatcher
from twinraven.connectors.mcp.servers import ServerConfig
from twinraven.foundation.errors import ToolUnavailable

_LAST_WORDS: Final = 2_000
_FAREWELL_S: Final = 0.2
_GRACE_S: Final = 1.0
_KILL_S: Final = 2.0


class ChildProgram(asyncio.SubprocessProtocol):
    """The program's side of the pipes."""

    def __init__(self, line: LineDispatcher) -> None:
        self._line = line
        self._stderr = bytearray()
        self.is_lost = False
        self.exited = asyncio.Event()

    @property
    def last_words(self) -> str:
        """The end of what it wrote to stderr."""
        return self._stderr.decode("utf-8", "replace").strip()

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        if fd == 1:
            self._line.data_received(data)
        else:
            self._stderr += data
            del self._stderr[:-_LAST_WORDS]

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        del exc
        if fd == 1:
            self.is_lost = not self._line.is_closed
            self._line.close()

    def pause_writing(self) -> None:
        self._line.pause_writing()

    def resume_writing(self) -> None:
        self._line.resume_writing()

    def process_exited(self) -> None:
        self.exited.set()


@asynccontextmanager
async def child_link(
    server: ServerConfig, *, max_bytes: int, on_fault: Callable[[str], None]
) -> AsyncGenerator[LineDispatcher]:
    """Run the program as long as the block does."""
    line = LineDispatcher(max_bytes=max_bytes, on_fault=on_fault)
    starting = asyncio.ensure_future(_start(server, line))
    try:
        transport, program = await asyncio.shield(starting)
    except asyncio.CancelledError:
        # Whoever gives up while the program starts never sees it, and nobody else would end it.
        starting.add_done_callback(_abandon)
        raise
    guard: Guard | None = None
    try:
        # It leads a group of its own.
        guard = Guard(transport.get_pid())
        output = transport.get_pipe_transport(0)
        line.attach(cast("asyncio.WriteTransport", output))
        yield line
    finally:
        try:
            if program.is_lost:
                await _has_exited(program, _FAREWELL_S)
                on_fault(_farewell(transport, program))
        finally:
            line.close()
            await _end(transport, program, guard)


async def _start(server: ServerConfig, line: LineDispatcher) -> tuple[asyncio.SubprocessTransport, ChildProgram]:
    try:
        return await asyncio.get_running_loop().subprocess_exec(
            lambda: ChildProgram(line),
            server.command,
            *server.args,
            env={**get_default_environment(), **server.env},
            cwd=server.cwd,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise ToolUnavailable(f"{server.command!r} cannot be started: {reason}", server=server.name) from error


def _abandon(starting: asyncio.Future[tuple[asyncio.SubprocessTransport, ChildProgram]]) -> None:
    """Kill a program whose caller is gone, with its group."""
    if not starting.cancelled() and starting.exception() is None:
        transport, _ = starting.result()
        _signal_group(transport.get_pid(), signal.SIGKILL)
        transport.close()


async def _end(transport: asyncio.SubprocessTransport, program: ChildProgram, guard: Guard | None) -> None:
    """Stop it with patience; if that is cut short, without."""
    is_stopped = False
    try:
        await _stop(transport, program)
        is_stopped = True
    finally:
        if not is_stopped:
            # There may be no guard, so its blow is not relied upon.
            _signal_group(transport.get_pid(), signal.SIGKILL)
        if guard is not None:
            await (guard.dismiss() if is_stopped else guard.strike())


async def _stop(transport: asyncio.SubprocessTransport, program: ChildProgram) -> None:
    """Close its stdin, which a server takes as the end; then ask its whole group; then insist."""
    pipe = transport.get_pipe_transport(0)
    if pipe is not None:
        pipe.close()
    try:
        for sign, patience in ((None, _GRACE_S), (signal.SIGTERM, _KILL_S), (signal.SIGKILL, _KILL_S)):
            if sign is not None:
                _signal_group(transport.get_pid(), sign)
            if await _has_exited(program, patience):
                break
        # Whatever it started itself and left behind.
        _signal_group(transport.get_pid(), signal.SIGKILL)
    finally:
        transport.close()


async def _has_exited(program: ChildProgram, patience: float) -> bool:
    with suppress(TimeoutError):
        async with asyncio.timeout(patience):
            await program.exited.wait()
    return program.exited.is_set()


def _signal_group(pid: int, sign: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, sign)


def _farewell(transport: asyncio.SubprocessTransport, program: ChildProgram) -> str:
    code = transport.get_returncode()
    how = "it ended" if code is None else f"it ended with status {code}"
    return f"{how}: {program.last_words}" if program.last_words else how
