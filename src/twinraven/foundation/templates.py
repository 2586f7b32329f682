"""Renders text templates: prompts, paths and bodies in which `{{name}}` is replaced by a value.

    template = parse_handlebars("{{#each orders}}- {{id}}: {{state}}\n{{/each}}")
    template.variables          # ("orders",)
    template.render({"orders": [{"id": 1, "state": "sent"}]})

The grammar (`template_syntax`) is a subset of Handlebars. A template is data that people and models write, so rendering
it touches nothing but JSON values, what is missing is nothing, and its time and its result are bounded. Nothing is
escaped for HTML, since the result is a prompt and not a page; whoever needs another escaping gives it. Objects and
lists are written as JSON, where Handlebars would write `[object Object]`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final, cast

from twinraven.foundation.canonical import canonical_json
from twinraven.foundation.errors import InvalidInput
from twinraven.foundation.template_syntax import Block, Node, Path, invalid_template, parse_nodes

MAX_TEMPLATE_CHARS: Final = 1_000_000
MAX_RENDERED_CHARS: Final = 10_000_000
MAX_RENDER_STEPS: Final = 100_000
"""The limit of tags and loop iterations; each blocks the event loop for some microseconds."""

_SHORT_CHARS: Final = 4_000

Encode = Callable[[str], str]
"""Makes a value's text fit for where it will stand, such as in a URL."""


@dataclass(frozen=True, slots=True)
class Handlebars:
    """A parsed template."""

    source: str
    nodes: tuple[Node, ...] = field(repr=False)
    paths: tuple[tuple[str, ...], ...]
    """Every place in the variables that is looked at, in order of appearance; inside a block, that of the block."""

    @property
    def variables(self) -> tuple[str, ...]:
        """The variables it uses, each once, in order of appearance."""
        return tuple(dict.fromkeys(path[0] for path in self.paths))

    @property
    def is_plain(self) -> bool:
        """Whether it is text and nothing else."""
        return not any(isinstance(node, (Path, Block)) for node in self.nodes)

    def render(self, variables: Mapping[str, Any], *, encode: Encode | None = None) -> str:
        """Render the text, with `encode` applied to each value that is put in."""
        rendering = _Rendering(encode)
        rendering.write(self.nodes, [_Scope(variables)])
        return "".join(rendering.pieces)

    def resolve(self, variables: Mapping[str, Any]) -> Any:
        """Return the value itself where the template is one variable and nothing else, otherwise the text."""
        only = self.nodes[0] if len(self.nodes) == 1 else None
        return _look_up(only, [_Scope(variables)]) if isinstance(only, Path) else self.render(variables)


def parse_handlebars(text: str) -> Handlebars:
    """Parse the template, or InvalidExpression with the line that is wrong."""
    return _parse_short(text) if len(text) <= _SHORT_CHARS else _parse_long(text)


@lru_cache(maxsize=1024)
def _parse_short(text: str) -> Handlebars:
    return _parse(text)


@lru_cache(maxsize=8)
def _parse_long(text: str) -> Handlebars:
    """Parse once what one request looks at many times; few are kept, because each can take megabytes."""
    return _parse(text)


def _parse(text: str) -> Handlebars:
    if len(text) > MAX_TEMPLATE_CHARS:
        raise invalid_template(f"is longer than {MAX_TEMPLATE_CHARS} characters", text, 0)
    nodes = parse_nodes(text)
    return Handlebars(text, nodes, tuple(dict.fromkeys(_root_paths(nodes))))


def _root_paths(nodes: Iterable[Node]) -> Iterator[tuple[str, ...]]:
    for node in nodes:
        path = node.path if isinstance(node, Block) else node
        if isinstance(path, Path) and path.is_root:
            yield path.segments
        if isinstance(node, Block):
            yield from _root_paths(node.body)
            yield from _root_paths(node.otherwise)


@dataclass(frozen=True, slots=True)
class _Scope:
    """What names stand for inside one block."""

    value: Any
    names: Mapping[str, Any] = field(default_factory=dict[str, Any])
    turn: Mapping[str, Any] = field(default_factory=dict[str, Any])


class _Rendering:
    """One pass over a template; counts, because loops in loops multiply."""

    def __init__(self, encode: Encode | None) -> None:
        self.pieces: list[str] = []
        self._encode = encode
        self._chars = 0
        self._steps = 0

    def write(self, nodes: Sequence[Node], scopes: list[_Scope]) -> None:
        for node in nodes:
            self._steps += 1
            if self._steps > MAX_RENDER_STEPS:
                raise InvalidInput(f"the template takes more than {MAX_RENDER_STEPS} steps with these values")
            if isinstance(node, Block):
                self._write_block(node, scopes)
            elif isinstance(node, Path):
                text = _as_text(_look_up(node, scopes))
                self._add(text if self._encode is None else self._encode(text))
            else:
                self._add(node)

    def _add(self, text: str) -> None:
        self._chars += len(text)
        if self._chars > MAX_RENDERED_CHARS:
            raise InvalidInput(f"the text grows beyond {MAX_RENDERED_CHARS} characters with these values")
        self.pieces.append(text)

    def _write_block(self, block: Block, scopes: list[_Scope]) -> None:
        value = _look_up(block.path, scopes)
        if block.kind == "each":
            self._write_turns(block, _turns(value), scopes)
        elif _is_truthy(value) == (block.kind == "unless"):
            self.write(block.otherwise, scopes)
        elif block.kind == "with":
            self.write(block.body, [*scopes, _Scope(value, dict(zip(block.names, (value,), strict=False)))])
        else:
            self.write(block.body, scopes)

    def _write_turns(self, block: Block, turns: list[tuple[str | int, Any]], scopes: list[_Scope]) -> None:
        for number, (key, item) in enumerate(turns):
            self._steps += 1
            turn = {"index": number, "key": key, "first": number == 0, "last": number == len(turns) - 1}
            self.write(block.body, [*scopes, _Scope(item, dict(zip(block.names, (item, key), strict=False)), turn)])
        if not turns:
            self.write(block.otherwise, scopes)


def _turns(value: Any) -> list[tuple[str | int, Any]]:
    if isinstance(value, dict):
        return list(cast("dict[str, Any]", value).items())
    return list(enumerate(cast("list[Any]", value))) if isinstance(value, list) else []


def _look_up(path: Path, scopes: list[_Scope]) -> Any:
    scope = scopes[-1 - path.up]
    if path.kind == "data":
        return scope.turn.get(path.segments[0])
    value = scope.names if path.kind == "local" else scope.value
    for segment in path.segments:
        value = _step_into(value, segment)
    return value


def _step_into(value: Any, segment: str) -> Any:
    if isinstance(value, Mapping):
        return cast("Mapping[str, Any]", value).get(segment)
    if isinstance(value, list):
        items = cast("list[Any]", value)
        if segment == "length":
            return len(items)
        is_index = segment.isascii() and segment.isdecimal() and len(segment) < 10
        return items[int(segment)] if is_index and int(segment) < len(items) else None
    return len(value) if isinstance(value, str) and segment == "length" else None


def _is_truthy(value: Any) -> bool:
    """As Handlebars sees it: an empty list is nothing, an empty object is something."""
    return bool(value) or isinstance(value, dict)


def _as_text(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else canonical_json(value).decode()
