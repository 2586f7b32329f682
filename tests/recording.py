"""A process that records, for tests that need several of them or need to end one.

    python -m tests.recording URL SESSION COUNT [--pause MS] [--acknowledge]

Every event has its number as its argument. With `--acknowledge` the number is printed once the event is durable, so
that whoever kills the process knows what must not be lost.
"""

from __future__ import annotations

import argparse
import asyncio
import os
from collections.abc import Iterator, Sequence

from tests.workers import ForkedProcess
from twinraven.foundation.errors import TwinRavenError
from twinraven.muninn import Collector, MuninnEvent, SessionObserver
from twinraven.storage import open_database

TASKS = 4


def start_recorder(url: str, session: str, count: int, *arguments: str) -> ForkedProcess:
    """The process, with its output to read."""
    return ForkedProcess("tests.recording", url, session, str(count), *arguments)


def assert_linked(events: Sequence[MuninnEvent]) -> None:
    """Neighbours name each other, in a strict order that agrees with the times."""
    order = [(event.timestamp, event.arrival) for event in events]
    assert order == sorted(set(order))
    ids = [event.event_id for event in events]
    assert [event.predecessor for event in events] == [None, *ids[:-1]]
    assert [event.successor for event in events] == [*ids[1:], None]


async def _record(collector: Collector, options: argparse.Namespace) -> None:
    numbers = iter(range(options.count))
    session = collector.observe(options.session)
    await asyncio.gather(*(_work(session, numbers, options) for _ in range(TASKS)))


async def _work(session: SessionObserver, numbers: Iterator[int], options: argparse.Namespace) -> None:
    for number in numbers:
        await session.record("count", {"pid": os.getpid(), "number": number}, output={"n": [number] * 20}, latency_ms=1)
        if options.acknowledge:
            # One write, so that a kill cannot leave half a line.
            os.write(1, f"{os.getpid()} {number}\n".encode())
        await asyncio.sleep(options.pause / 1000)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("url")
    parser.add_argument("session")
    parser.add_argument("count", type=int)
    parser.add_argument("--pause", type=float, default=0.0)
    parser.add_argument("--acknowledge", action="store_true")
    options = parser.parse_args()
    database = open_database(options.url)
    collector = Collector(database)
    try:
        asyncio.run(_record(collector, options))
    except TwinRavenError as error:
        raise SystemExit(f"{error.code}: {error.message}") from error
    finally:
        collector.close()
        database.close()


if __name__ == "__main__":
    main()
