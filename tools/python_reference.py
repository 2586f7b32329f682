"""Writes docs/python.md, the reference of the public Python names: `python -m tools.python_reference > docs/python.md`.

Signatures and descriptions are those of the code, and a test compares the page with what is written here.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterator
from enum import Enum, EnumType
from typing import Any

import twinraven

_INTRODUCTION = """\
# Python reference

<!-- Written by `python -m tools.python_reference`; a test compares the two. -->

What `from twinraven import …` gives. Signatures and descriptions are those of the code; everything has type hints.
How the names are used: [record your own agent](how-to/record-an-agent.md), [use the client](how-to/use-the-client.md),
[connect an agent](how-to/connect-an-agent.md).
"""


def render_page() -> str:
    """Render the whole page."""
    return "\n".join([_INTRODUCTION, *(line for name in twinraven.__all__ for line in _section(name))])


def _section(name: str) -> Iterator[str]:
    named: Any = getattr(twinraven, name)
    yield f"## {name}\n"
    if isinstance(named, EnumType):
        yield f"{_description(named)}\n"
        yield f"{', '.join(f'`{member}`' for member in named.__members__)}\n"
        return
    yield f"```python\n{_signature(name, named)}\n```\n"
    yield f"{_description(named)}\n"
    if named is twinraven.AsyncClient:
        yield "It has the methods of [Client](#client), to be awaited, or iterated over with `async for`.\n"
    elif inspect.isclass(named):
        yield from _members(named)


def _members(kind: type) -> Iterator[str]:
    """Render public methods and attributes, inherited ones of the project included, in the order of definition."""
    own = [each for each in reversed(kind.__mro__) if each.__module__.startswith("twinraven")]
    attributes: list[str] = []
    for name in dict.fromkeys(name for each in own for name in vars(each) if not name.startswith("_")):
        member = inspect.getattr_static(kind, name)
        if inspect.isfunction(member):
            described = _first_line(member)
            yield f"- `{_signature(name, member)}`" + (f"  \n  {described}" if described else "")
        elif hasattr(member, "__get__") and not inspect.ismemberdescriptor(member):
            attributes.append(name)
    if attributes:
        yield f"- attributes: {', '.join(f'`{name}`' for name in attributes)}"
    yield ""


class _Shown:
    """Shows an annotation or a default in a signature as it was written."""

    def __init__(self, value: Any) -> None:
        self._value = value

    def __repr__(self) -> str:
        if inspect.isfunction(self._value):
            return "…" if "<" in self._value.__name__ else self._value.__name__
        if isinstance(self._value, Enum):
            return f"{type(self._value).__name__}.{self._value.name}"
        return json.dumps(self._value) if isinstance(self._value, str) else repr(self._value)


class _Annotation(_Shown):
    def __repr__(self) -> str:
        return str(self._value)


def _signature(name: str, named: Callable[..., Any]) -> str:
    signature = inspect.signature(named)
    shown = [
        each.replace(
            annotation=each.empty if each.annotation is each.empty else _Annotation(each.annotation),
            default=each.empty if each.default is each.empty else _Shown(each.default),
        )
        for each in signature.parameters.values()
        if each.name not in ("self", "client")
    ]
    text = str(signature.replace(parameters=shown, return_annotation=_Annotation(signature.return_annotation)))
    begins = "async " if inspect.iscoroutinefunction(named) else ""
    return begins + name + (text.removesuffix(" -> None") if inspect.isclass(named) else text)


def _description(named: Any) -> str:
    return inspect.getdoc(named) or ""


def _first_line(member: Any) -> str:
    return _description(member).partition("\n\n")[0].replace("\n", " ")


if __name__ == "__main__":
    print(render_page(), end="")
