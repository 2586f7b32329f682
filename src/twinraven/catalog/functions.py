"""Offers Python functions as tools.

    @tool(effect="read")
    def get_order(order_id: int) -> Order:
        "One order with its items."

Name, description and both schemas come from the function itself; pydantic turns the type hints into JSON Schema, and is
imported only when somebody first asks for them. Arguments arrive as JSON; a parameter that is hinted as something else
(a date, an enum, a model) is given what its hint says.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from functools import cached_property
from importlib import import_module
from pathlib import Path
from traceback import extract_tb
from types import UnionType
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar, Union, get_args, get_origin, get_type_hints, overload

from twinraven.catalog.effects import infer_effect
from twinraven.catalog.model import Effect, IdempotentBy, Sensitivity, ToolEntry
from twinraven.foundation.canonical import canonical_json, parse_json
from twinraven.foundation.errors import InvalidDefinition, InvalidInput, InvalidSetting, TwinRavenError

if TYPE_CHECKING:
    from pydantic import TypeAdapter

F = TypeVar("F", bound=Callable[..., Any])
C = TypeVar("C", bound=Enum)
_MARK = "__twinraven_tool__"
KEY_PARAMETER: Final = "idempotency_key"
_PLAIN: frozenset[Any] = frozenset({str, int, float, bool, type(None), list, dict, object, Any, Union, UnionType})


@dataclass(frozen=True)
class FunctionTool:
    """A function and what was declared of it."""

    function: Callable[..., Any]
    tool_id: str
    description: str
    effect: Effect | None
    sensitivity: Sensitivity
    timeout_ms: int | None
    idempotent_by: IdempotentBy | None = None
    takes_key: bool = False

    @cached_property
    def is_async(self) -> bool:
        return inspect.iscoroutinefunction(self.function)

    def arguments(self, params: dict[str, Any], *, key: str | None = None) -> dict[str, Any]:
        """JSON arguments as the function's own types; one that wants the call's key gets it besides."""
        readers = self._signature.readers
        if self._signature.wants_key:
            params = {**params, KEY_PARAMETER: key}
        if not readers:
            return params
        read = {name: _read(readers[name], name, params[name]) for name in readers if name in params}
        return {**params, **read}

    @cached_property
    def _signature(self) -> _Signature:
        return _Signature.of(self)

    @cached_property
    def entry(self) -> ToolEntry:
        """The catalogue entry, with schemas from the type hints."""
        effect = self.effect or infer_effect(self.tool_id)
        return ToolEntry(
            tool_id=self.tool_id,
            description=self.description,
            input_schema=self._signature.input_schema,
            output_schema=self._signature.output_schema,
            effect=effect,
            effect_origin="declared" if self.effect else "none" if effect is Effect.UNKNOWN else "inferred",
            sensitivity=self.sensitivity,
            connector="python",
            timeout_ms=self.timeout_ms,
            idempotent_by=self.idempotent_by,
            takes_key=self.takes_key,
        )


@overload
def tool(function: F, /) -> F: ...


@overload
def tool(
    *,
    name: str | None = None,
    effect: str | None = None,
    sensitivity: str = "low",
    timeout_ms: int | None = None,
    description: str | None = None,
    idempotent_by: Iterable[str] = (),
    within: int | Literal["session"] = "session",
    takes_key: bool = False,
) -> Callable[[F], F]: ...


def tool(  # noqa: PLR0913 - everything that can be said of a tool, each by name
    function: F | None = None,
    /,
    *,
    name: str | None = None,
    effect: str | None = None,
    sensitivity: str = "low",
    timeout_ms: int | None = None,
    description: str | None = None,
    idempotent_by: Iterable[str] = (),
    within: int | Literal["session"] = "session",
    takes_key: bool = False,
) -> F | Callable[[F], F]:
    """Declare a function a tool, as `@tool` or `@tool(effect="read")`; it stays the function it was.

    `idempotent_by` names the arguments that make two calls the same effect within a session, or within so many seconds.
    `takes_key` promises that two calls under one idempotency key have one effect; a parameter `idempotency_key` of such
    a function is given that key and is no argument of the tool.
    """
    named = tuple(idempotent_by)
    declared_effect = None if effect is None else _choice(Effect, effect, "effect")
    declared_sensitivity = _choice(Sensitivity, sensitivity, "sensitivity")

    def decorate(function: F) -> F:
        setattr(
            function,
            _MARK,
            FunctionTool(
                function=function,
                tool_id=name or function.__name__,
                description=description or _first_paragraph(function),
                effect=declared_effect,
                sensitivity=declared_sensitivity,
                timeout_ms=timeout_ms,
                idempotent_by=IdempotentBy(named, within) if named else None,
                takes_key=takes_key,
            ),
        )
        return function

    return decorate if function is None else decorate(function)


def _choice(kind: type[C], value: str, field: str) -> C:
    try:
        return kind(value)
    except ValueError:
        choices = ", ".join(str(each.value) for each in kind)
        raise InvalidDefinition(f"@tool({field}={value!r}): use one of {choices}", field=field) from None


class FunctionTools:
    """The Python tools of this process, the same for every tenant."""

    def __init__(self, functions: Iterable[Callable[..., Any]] = ()) -> None:
        self._tools: dict[str, FunctionTool] = {}
        for function in functions:
            self.add(function)

    def add(self, function: Callable[..., Any]) -> FunctionTool:
        """Register one function; two tools of one name are refused."""
        declared = getattr(function, _MARK, None) or getattr(getattr(function, "__func__", None), _MARK, None)
        if declared is None:
            raise InvalidDefinition(
                f"{getattr(function, '__name__', function)!r} is not a tool; decorate it with @tool(effect=…)"
            )
        if inspect.ismethod(function):
            declared = _bound(declared, function)
        if declared.tool_id in self._tools and self._tools[declared.tool_id].function != declared.function:
            raise InvalidDefinition(f"two tools are named {declared.tool_id!r}; give one another name", field="name")
        self._tools[declared.tool_id] = declared
        return declared

    def add_module(self, module: str) -> int:
        """Register every tool a module defines; says how many."""
        try:
            loaded = import_module(module)
        except ImportError as error:
            raise InvalidSetting(f"tools.modules: cannot import {module!r}: {error}", field="tools.modules") from error
        except TwinRavenError:
            raise
        except (Exception, SystemExit) as error:  # the module is somebody else's code, and runs whole when imported
            said = f"{type(error).__name__} when it was imported: {error}{_place_of(error)}"
            raise InvalidSetting(f"tools.modules: {module!r} raised {said}", field="tools.modules") from error
        found = [value for value in vars(loaded).values() if callable(value) and hasattr(value, _MARK)]
        for function in found:
            self.add(function)
        return len(found)

    def function(self, tool_id: str) -> FunctionTool | None:
        return self._tools.get(tool_id)

    def find(self, tenant_id: str, tool_id: str) -> ToolEntry | None:
        del tenant_id
        declared = self._tools.get(tool_id)
        return None if declared is None else declared.entry

    def entries(self, tenant_id: str) -> list[ToolEntry]:
        del tenant_id
        return [declared.entry for declared in self._tools.values()]


def _place_of(error: BaseException) -> str:
    """Return file and line of the user's code where an error arose; a syntax error says that itself."""
    if isinstance(error, SyntaxError) or error.__traceback__ is None:
        return ""
    last = extract_tb(error.__traceback__)[-1]
    return f" ({Path(last.filename).name}, line {last.lineno})"


def _bound(declared: FunctionTool, method: Callable[..., Any]) -> FunctionTool:
    return replace(declared, function=method)


def _first_paragraph(function: Callable[..., Any]) -> str:
    text = inspect.getdoc(function) or function.__name__.replace("_", " ")
    return " ".join(text.split("\n\n")[0].split())


@dataclass(frozen=True, slots=True)
class _Signature:
    """What a function's type hints say: its schemas, and how to read what JSON cannot say directly."""

    input_schema: dict[str, Any]
    output_schema: dict[str, Any] | None
    readers: dict[str, TypeAdapter[Any]]
    wants_key: bool

    @classmethod
    def of(cls, declared: FunctionTool) -> _Signature:
        from pydantic import TypeAdapter
        from pydantic.errors import PydanticInvalidForJsonSchema, PydanticSchemaGenerationError

        try:
            hints = get_type_hints(declared.function, include_extras=True)
            parameters = dict(inspect.signature(declared.function).parameters)
            wants_key = declared.takes_key and parameters.pop(KEY_PARAMETER, None) is not None
            adapters: dict[str, TypeAdapter[Any]] = {name: TypeAdapter(hints.get(name, Any)) for name in parameters}
            returned = hints.get("return", Any)
            return cls(
                input_schema=_input_schema(declared, parameters, adapters),
                output_schema=None if returned is Any else TypeAdapter(returned).json_schema(mode="serialization"),
                readers={name: adapters[name] for name in parameters if not _is_plain(hints.get(name, Any))},
                wants_key=wants_key,
            )
        except (PydanticSchemaGenerationError, PydanticInvalidForJsonSchema, NameError) as error:
            said = str(error).partition("\n")[0].partition(". Set ")[0]
            raise InvalidDefinition(
                f"tool {declared.tool_id!r}: {said}; annotate parameters and result with types that JSON can say",
                tool_id=declared.tool_id,
            ) from error


def _input_schema(
    declared: FunctionTool, parameters: Mapping[str, inspect.Parameter], adapters: dict[str, TypeAdapter[Any]]
) -> dict[str, Any]:
    properties: dict[str, Any] = {}
    required: list[str] = []
    for name, parameter in parameters.items():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY):
            raise InvalidDefinition(
                f"tool {declared.tool_id!r}: {name!r} cannot be passed by name; tools take named arguments"
            )
        properties[name] = adapters[name].json_schema()
        if parameter.default is parameter.empty:
            required.append(name)
        else:
            properties[name].update(_default(parameter.default))
    schema = _hoist({"type": "object", "properties": properties, "required": required})
    schema["additionalProperties"] = False
    return schema


def _default(value: Any) -> dict[str, Any]:
    """Return a default as JSON; one that JSON cannot say stays the function's own affair."""
    try:
        return {"default": parse_json(canonical_json(value))}
    except InvalidInput:
        return {}


def _is_plain(hint: Any) -> bool:
    """Return whether a JSON value is already what the hint asks for."""
    origin = get_origin(hint)
    if origin is None:
        return isinstance(hint, Hashable) and hint in _PLAIN
    if origin is Literal:
        return all(type(choice) in _PLAIN for choice in get_args(hint))
    return origin in _PLAIN and all(_is_plain(part) for part in get_args(hint))


def _read(reader: TypeAdapter[Any], name: str, value: Any) -> Any:
    from pydantic import ValidationError

    try:
        return reader.validate_python(value)
    except ValidationError as error:
        reasons = "; ".join(detail["msg"] for detail in error.errors(include_url=False, include_input=False))
        raise InvalidInput(f"params.{name}: {reasons}", field=f"params.{name}") from None


def _hoist(schema: dict[str, Any]) -> dict[str, Any]:
    """Move the `$defs` of parameters to the top, where their references point."""
    definitions: dict[str, Any] = {}
    for parameter in schema["properties"].values():
        definitions.update(parameter.pop("$defs", {}))
    return {**schema, "$defs": definitions} if definitions else schema
