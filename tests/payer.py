"""A process that causes effects that can be counted: each is one line appended to a file.

    python -m tests.payer race HOME FILE KEYS        racing callers, who answer with one line of JSON
    python -m tests.payer work HOME FILE KEYS        one effect after the other, each acknowledged on stdout
    python -m tests.payer keyless HOME FILE KEYS     the same without keys of the caller's own

Everything goes through the whole house: vault, policy, audit chain, keys, Muninn. The environment makes it harder:
`PAYER_FIRST` is the key to begin with, `PAYER_PAUSE` how long a payment goes on after it was made, `PAYER_DIES` the
moment of its first payment at which the process kills itself, `PAYER_FILE_LIMIT` how many bytes its files may have.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import resource
import signal
import sys
import time
from pathlib import Path
from typing import Any

from tests.workers import ForkedProcess
from twinraven.app import TwinRaven, open_home
from twinraven.calls import CallContext, SkillInvocationRequest, SkillInvocationResponse
from twinraven.catalog import tool

CALLERS = 4
TIMEOUT_MS = 60_000

_file = Path()


@tool(effect="write", sensitivity="high", timeout_ms=TIMEOUT_MS)
def pay(to: str, amount: int) -> dict[str, Any]:
    """Pay, once for each line."""
    _die("before")
    out = os.open(_file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(out, f"{to} {amount}\n".encode())
    os.fsync(out)
    os.close(out)
    _die("after")
    time.sleep(float(os.environ.get("PAYER_PAUSE", "0")))
    return {"to": to, "amount": amount, "receipt": os.urandom(8).hex()}


def pay_into(file: Path) -> None:
    """Say where payments of this process go."""
    global _file  # noqa: PLW0603 - a tool is a plain function and has nowhere else to know its file from
    _file = file


def _die(moment: str) -> None:
    if os.environ.get("PAYER_DIES") == moment:
        os.kill(os.getpid(), signal.SIGKILL)


def start_payer(role: str, home: Path, file: Path, keys: int, *tracer: str, **variables: str) -> ForkedProcess:
    """The process, with its input and output to use."""
    return ForkedProcess("tests.payer", role, str(home), str(file), str(keys), tracer=tracer, **variables)


def payments(file: Path) -> dict[str, list[int]]:
    """For each payee the amounts that were really paid."""
    found: dict[str, list[int]] = {}
    for line in file.read_text().splitlines() if file.exists() else ():
        to, amount = line.split()
        found.setdefault(to, []).append(int(amount))
    return found


async def send(raven: TwinRaven, number: int, amount: int, *, keyed: bool = True) -> SkillInvocationResponse:
    """One call of `pay`; without a key of its own it gets a new one, as a careless caller's would."""
    key = f"key-{number}" if keyed else os.urandom(16).hex()
    request = SkillInvocationRequest("pay", {"to": f"payee-{number}", "amount": amount}, idempotency_key=key)
    return await raven.calls.invoke(request, CallContext(f"session-{os.getpid()}", caller="payer"))


async def race(raven: TwinRaven, keys: int) -> list[list[Any]]:
    """Callers who all want every key, most of them for the same amount; gives what each was told."""

    async def want(number: int, caller: int) -> list[Any]:
        amount = 2 if caller == 0 else 1
        while True:
            response = await send(raven, number, amount)
            code = None if response.error is None else response.error["code"]
            if code != "CALL_IN_PROGRESS":
                return [number, amount, code, response.output]
            await asyncio.sleep(random.uniform(0.001, 0.03))

    told: list[list[Any]] = []
    for number in range(keys):
        told += await asyncio.gather(*(want(number, caller) for caller in range(CALLERS)))
    return told


async def work(raven: TwinRaven, keys: int, *, keyed: bool = True) -> None:
    """One effect after the other; what is acknowledged is said at once."""
    for number in range(int(os.environ.get("PAYER_FIRST", "0")), keys):
        response = await send(raven, number, 1, keyed=keyed)
        code = "success" if response.error is None else response.error["code"]
        # One write, so that a kill cannot leave half a line.
        os.write(1, f"{number} {code}\n".encode())


async def _run(role: str, home: str, keys: int) -> None:
    with open_home(Path(home), functions=[pay]) as raven:
        if role == "race":
            sys.stdin.readline()
            os.write(1, json.dumps(await race(raven, keys)).encode())
        else:
            await work(raven, keys, keyed=role == "work")


def main(role: str, home: str, file: str, keys: str) -> None:
    pay_into(Path(file))
    limit = os.environ.get("PAYER_FILE_LIMIT")
    if limit is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (int(limit), int(limit)))
    asyncio.run(_run(role, home, int(keys)))


if __name__ == "__main__":
    main(*sys.argv[1:])
