"""Validates a tool's connection parameters with its connector when they are written, not when they are used.

A schema of a service's own says what its owner wants of parameters. What a connector makes of them is another matter:
an address that is none, a header that nobody may set, a model that is not named pass any schema that does not mention
them, and fail at every call. Nothing is reached and no secret is opened here. Whether an address may be connected to is
left to the moment of connecting, since rules and names change.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from twinraven.catalog import ServiceStructure, ServiceType, WireProtocol
from twinraven.connectors.binding import Binding
from twinraven.connectors.endpoints import check_certificate
from twinraven.connectors.graph import GraphConnector
from twinraven.connectors.http_model import read_auth
from twinraven.connectors.llm import LlmConnector
from twinraven.connectors.mcp.service_servers import NamedServer
from twinraven.connectors.rest import RestConnector
from twinraven.foundation.errors import InvalidDefinition, InvalidInput, PolicyViolation

_ENDPOINT: Final = "connection_params.endpoint"


def check_connection(
    structure: ServiceStructure, params: Mapping[str, Any], *, has_secret: bool, is_whole: bool = True
) -> None:
    """Raise InvalidDefinition, naming the field, where no call could use these parameters.

    What a service or a template states of them is not whole: what tools have to state themselves may be missing.
    """
    stated = params if is_whole else {**_stand_ins(structure.protocol), **params}
    binding: Binding[Any] = Binding("", structure.protocol.value, stated, None)
    try:
        _CHECKS[structure.type](binding, has_secret)
    except InvalidInput as error:
        raise InvalidDefinition(error.message, field=error.details.get("field", _ENDPOINT)) from None
    except PolicyViolation as error:
        raise InvalidDefinition(f"{_ENDPOINT}: {error.message}", field=_ENDPOINT) from None


def _check_mcp(binding: Binding[Any], has_secret: bool) -> None:
    if binding.protocol == WireProtocol.STDIO:
        config = NamedServer.of(binding, "secret" if has_secret else None).config
        if any("\0" in word for word in (config.command, *config.args)):
            raise binding.invalid("args", "cannot have a NUL character in them")
        for name, value in config.env.items():
            if not name or "=" in name or "\0" in name + value:
                raise binding.invalid("env", f"has {name!r} in it, which is no variable a program can be given")
        return
    NamedServer.of(binding, None)
    read_auth(binding.param("auth"))
    check_certificate(binding)


_CHECKS: Final[Mapping[ServiceType, Callable[[Binding[Any], bool], None]]] = {
    ServiceType.REST_API: lambda binding, _: RestConnector.check(binding),
    ServiceType.LLM_PROVIDER: lambda binding, _: LlmConnector.check(binding),
    ServiceType.NEO4J_GRAPH: lambda binding, _: GraphConnector.check(binding),
    ServiceType.MCP_SERVER: _check_mcp,
}


def _stand_ins(protocol: WireProtocol) -> dict[str, Any]:
    scheme = "https" if protocol is WireProtocol.SSE else protocol.value
    return {"endpoint": f"{scheme}://host.example", "model": "model", "command": "program"}
