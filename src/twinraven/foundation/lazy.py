"""Resolves the names of a facade on first use, so that a command pays for no module it does not need.

A facade states its names once for type checkers, as imports under `if TYPE_CHECKING:`; where a type checker takes a
name from, it is imported from at run time, too.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any, Final

_BLOCK: Final = re.compile(r"^if TYPE_CHECKING:\n((?:[ \t].*\n|\n)+)", re.MULTILINE)
_IMPORT: Final = re.compile(r"from ([\w.]+) import (?:\(([^)]*)\)|(.+))")


def lazy_names(package: str) -> Callable[[str], Any]:
    """Make the `__getattr__` of a facade; a name that was resolved stays in the facade."""
    homes: dict[str, str] = {}

    def resolve(name: str) -> Any:
        if not homes:
            homes.update(_stated(package))
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(homes[name]), name)
        setattr(sys.modules[package], name, value)
        return value

    return resolve


def _stated(package: str) -> Iterator[tuple[str, str]]:
    """Yield each name that the facade imports for type checkers, and the module it comes from."""
    spec = sys.modules[package].__spec__
    source: Any = spec.loader if spec is not None else None
    block = _BLOCK.search(source.get_source(package))
    for module, several, one in _IMPORT.findall(block.group(1)) if block is not None else ():
        for name in (several or one).split(","):
            if name.strip():
                yield name.strip(), module
