"""`make bench`: runs bench/bench_*.py, all of them or those named, and files what they measured."""

from __future__ import annotations

import argparse
import sys
import traceback
from collections.abc import Sequence
from importlib import import_module

from bench.harness import HERE, REPEATS, Harness, Row
from bench.results import as_text, merge, read_rows, write_page, write_rows


def main(arguments: Sequence[str] | None = None) -> int:
    known = sorted(path.stem.removeprefix("bench_") for path in HERE.glob("bench_*.py"))
    parser = argparse.ArgumentParser(prog="python -m bench", description="Measure TwinRaven against its peers.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"which to run: {', '.join(known) or 'none yet'}")
    parser.add_argument("--repeats", type=int, default=REPEATS, help=f"at least {REPEATS}, which is the default")
    parser.add_argument("--strict", action="store_true", help="fail when an aim is missed")
    options = parser.parse_args(arguments)
    if unknown := sorted(set(options.names) - set(known)):
        parser.error(f"no such benchmark: {', '.join(unknown)}")
    names: list[str] = options.names or known
    rows, broken = _measure(names, options.repeats)
    measured = [name for name in names if name not in broken]
    results = merge(read_rows(), rows, measured=measured, known=known)
    write_rows(results)
    write_page(results)
    missed = [row for row in rows if not row.is_met]
    print(f"bench: {len(rows) - len(missed)} of {len(rows)} aims met; results in bench/results.json")
    if broken:
        print(f"bench: these broke: {', '.join(broken)}", file=sys.stderr)
    return 1 if broken or (options.strict and missed) else 0


def _measure(names: Sequence[str], repeats: int) -> tuple[list[Row], list[str]]:
    """The rows of every module that finished, and the names of those that did not."""
    rows: list[Row] = []
    broken: list[str] = []
    for name in names:
        print(f"bench: {name}", file=sys.stderr, flush=True)
        try:
            measured: list[Row] = import_module(f"bench.bench_{name}").measure(Harness(name, repeats=repeats))
        except Exception:  # noqa: BLE001 - the edge of the process: one broken benchmark does not cost the others
            traceback.print_exc()
            broken.append(name)
            continue
        print(as_text(measured), flush=True)
        rows += measured
    return rows, broken


if __name__ == "__main__":
    raise SystemExit(main())
