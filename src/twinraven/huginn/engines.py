"""Engines that map a function over the parts of a log: processes of this machine, a Ray cluster or a Spark cluster.

An engine only carries work and results; what is counted, and that it adds up, is the business of `parquet_mining`. Ray
and Spark are imported when they are asked for. Their workers need TwinRaven installed and must see the files under the
same paths.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any, Literal, Protocol, TypeVar, get_args

from twinraven.foundation.errors import InvalidInput

P = TypeVar("P")
R = TypeVar("R")

EngineName = Literal["local", "ray", "spark"]


class Engine(Protocol):
    """Runs a function on every part; both must survive pickling."""

    def map(self, work: Callable[[P], R], parts: Sequence[P]) -> list[R]:
        """Return the results in the order of the parts."""
        ...

    def close(self) -> None:
        """Let go of workers."""
        ...


class LocalEngine:
    """Processes of this machine; one worker works in this process."""

    def __init__(self, workers: int) -> None:
        from concurrent.futures import ProcessPoolExecutor
        from multiprocessing import get_context

        # Not forked: a fork of a process with threads may hang.
        self._pool = ProcessPoolExecutor(workers, mp_context=get_context("spawn")) if workers > 1 else None

    def map(self, work: Callable[[P], R], parts: Sequence[P]) -> list[R]:
        return [work(part) for part in parts] if self._pool is None else list(self._pool.map(work, parts))

    def close(self) -> None:
        if self._pool is not None:
            self._pool.shutdown()


class RayEngine:
    """Tasks of a Ray cluster: that of RAY_ADDRESS, or one of this machine."""

    def __init__(self) -> None:
        self._ray = _library("ray")
        self._started = not self._ray.is_initialized()
        if self._started:
            self._ray.init(include_dashboard=False, log_to_driver=False, configure_logging=False)

    def map(self, work: Callable[[P], R], parts: Sequence[P]) -> list[R]:
        run = self._ray.remote(work_on)
        shared = self._ray.put(work)
        return self._ray.get([run.remote(shared, part) for part in parts])

    def close(self) -> None:
        if self._started:
            self._ray.shutdown()


class SparkEngine:
    """Tasks of a Spark cluster: that of the session's configuration, or threads of this machine."""

    def __init__(self) -> None:
        import os
        import sys

        session = _library("pyspark.sql").SparkSession
        # Else workers take the first python3 they find, which knows nothing of TwinRaven.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        builder = session.builder.appName("twinraven mine").config("spark.ui.showConsoleProgress", "false")
        self._spark = builder.getOrCreate()

    def map(self, work: Callable[[P], R], parts: Sequence[P]) -> list[R]:
        if not parts:
            return []
        return self._spark.sparkContext.parallelize(list(parts), len(parts)).map(work).collect()

    def close(self) -> None:
        self._spark.stop()


def open_engine(name: EngineName, *, workers: int | None = None) -> Engine:
    """Open the engine of this name; `workers` is for `local`, by default one for each processor."""
    if name not in get_args(EngineName):
        raise InvalidInput(f"no engine {name!r}; use one of {', '.join(get_args(EngineName))}", field="engine")
    if workers is not None and name != "local":
        raise InvalidInput(f"the cluster decides how many work; leave workers out for {name}", field="workers")
    if name == "local":
        import os

        return LocalEngine(workers or os.cpu_count() or 1)
    return RayEngine() if name == "ray" else SparkEngine()


def work_on(work: Callable[[P], R], part: P) -> R:
    """Apply the work; a plain function, which every cluster can carry."""
    return work(part)


def _library(name: str) -> Any:
    try:
        return import_module(name)
    except ImportError as error:
        top = name.partition(".")[0]
        raise InvalidInput(
            f"the engine {top.removeprefix('py')!r} needs {top}, which is not installed",
            field="engine",
            fix=f"pip install {top} pyarrow",
        ) from error
