"""Reads and writes a catalogue as one YAML file.

    services:
      - name: shop
        type: rest_api
        protocol: https
        connection_schema: {type: object, required: [endpoint], properties: {endpoint: {type: string, format: uri}}}
    tools:
      - key: get_order
        service: shop
        connection_params: {endpoint: https://shop.example}
        operation: {type: rest_call, method: GET, path: "/orders/{{order_id}}"}
        input_schema: {type: object, required: [order_id], properties: {order_id: {type: string}}}

Also `service_templates` and `tool_templates`. YAML is read so that it can surprise nobody: a key given twice is
refused, a date is refused and not silently another type, and anchors and merges cannot unfold without end: what they
stand for is counted before anything is built.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, Final, cast

from twinraven.catalog.documents import Document, plain_name
from twinraven.foundation.errors import InvalidDefinition
from twinraven.foundation.yaml_nodes import first_unfolding, yaml_problem

MAX_FILE_CHARS: Final = 2_000_000
MAX_FILE_VALUES: Final = 200_000
MAX_FILE_DEPTH: Final = 100

SECTIONS: Final = ("service_templates", "tool_templates", "services", "tools")
"""In the order in which they depend on each other."""

Body = dict[str, Any]
_FOLDED: Final = re.compile("[\x85\u2028\u2029]")


@dataclass(frozen=True, slots=True)
class CatalogFile:
    """The definitions in a file; each body has its fields under their plain names."""

    service_templates: tuple[Body, ...] = field(default=())
    tool_templates: tuple[Body, ...] = field(default=())
    services: tuple[Body, ...] = field(default=())
    tools: tuple[Body, ...] = field(default=())

    def section(self, name: str) -> tuple[Body, ...]:
        return getattr(self, name)

    def dump(self) -> str:
        """Return the file as YAML."""
        import yaml

        sections = {name: list(self.section(name)) for name in SECTIONS if self.section(name)}

        class Dumper(yaml.SafeDumper):
            """Escapes the line breaks that YAML would fold into spaces outside double quotes."""

            def represent_str(self, data: str) -> yaml.ScalarNode:
                style = '"' if _FOLDED.search(data) else None
                scalar: yaml.ScalarNode = cast("Any", self).represent_scalar("tag:yaml.org,2002:str", data, style=style)
                return scalar

        Dumper.add_representer(str, Dumper.represent_str)
        return yaml.dump(sections, Dumper=Dumper, sort_keys=False, allow_unicode=True, width=110)


def read_file(text: str) -> CatalogFile:
    """Read the catalogue that a YAML or JSON text describes."""
    loaded = load_document(text)
    document = Document("file", {} if loaded is None else loaded, known=SECTIONS)
    return CatalogFile(**{name: _bodies(document.fields.get(name), name) for name in SECTIONS})


def load_document(text: str) -> Any:
    """Load the value that a YAML or JSON text describes, which holds nothing that JSON does not have."""
    import yaml

    if len(text) > MAX_FILE_CHARS:
        raise InvalidDefinition(f"the file is longer than {MAX_FILE_CHARS} characters")

    class Loader(yaml.SafeLoader):
        """Refuses a key that is given twice, which YAML forbids and PyYAML does not notice."""

        def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
            seen: set[object] = set()
            for key_node, _ in node.value:
                key = key_node.value if isinstance(key_node, yaml.ScalarNode) else id(key_node)
                if key in seen:
                    line = key_node.start_mark.line + 1
                    raise InvalidDefinition(f"the file gives {key!r} twice in one object (line {line})", line=line)
                seen.add(key)
            return super().construct_mapping(node, deep)

        def get_single_node(self) -> yaml.Node | None:
            node = super().get_single_node()
            line = None if node is None else first_unfolding(node, values=MAX_FILE_VALUES, levels=MAX_FILE_DEPTH)
            if line is not None:
                raise _too_large(line)
            return node

    try:
        # Loader is a SafeLoader: it makes nothing but plain values.
        loaded = yaml.load(text, Loader)  # noqa: S506
    except (yaml.YAMLError, ValueError) as error:
        raise InvalidDefinition(f"the file is not YAML: {yaml_problem(error)}") from None
    except RecursionError:
        raise InvalidDefinition(f"the file is nested deeper than {MAX_FILE_DEPTH} levels") from None
    _check_values(loaded)
    return loaded


def _too_large(line: int | None = None) -> InvalidDefinition:
    where = "" if line is None else f" (line {line})"
    return InvalidDefinition(
        f"the file holds more than {MAX_FILE_VALUES} values or more than {MAX_FILE_DEPTH} levels, "
        f"references counted where they are used{where}"
    )


def _check_values(loaded: Any) -> None:
    """Raise unless all is JSON, counted as if every reference were written out."""
    pending: list[tuple[Any, str, int]] = [(loaded, "", 0)]
    count = 0
    while pending:
        value, place, depth = pending.pop()
        count += 1
        if count > MAX_FILE_VALUES or depth > MAX_FILE_DEPTH:
            raise _too_large()
        if isinstance(value, dict):
            for key, member in cast("dict[object, Any]", value).items():
                if not isinstance(key, str):
                    raise InvalidDefinition(f"{place or 'the file'} has the key {key!r}; write it in quotes")
                pending.append((member, f"{place}.{key}".removeprefix("."), depth + 1))
        elif isinstance(value, list):
            items = cast("list[Any]", value)
            pending += [(item, f"{place}[{index}]", depth + 1) for index, item in enumerate(items)]
        elif not isinstance(value, (str, int, float, type(None))):
            raise InvalidDefinition(f"{place} is a {type(value).__name__}; write it in quotes", field=place)


def _bodies(section: object, name: str) -> tuple[Body, ...]:
    if section is None:
        return ()
    if not isinstance(section, list):
        raise InvalidDefinition(f"{name} must be a list", field=name)
    bodies: list[Body] = []
    for index, body in enumerate(cast("list[Any]", section)):
        if not isinstance(body, dict):
            raise InvalidDefinition(f"{name}[{index}] must be an object", field=f"{name}[{index}]")
        bodies.append({plain_name(key): value for key, value in cast("dict[str, Any]", body).items()})
    return tuple(bodies)
