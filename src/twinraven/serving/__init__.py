"""Serves HTTP: the kernel that every door shares, from the socket to a table of routes.

Who is let in, what listens and how it ends; routing, checking, idempotent routes, paging, problem details, metrics and
the OpenAPI document. Above stand the doors (`api`, `gateway`, a console), which bring rows of routes or applications of
their own. Names are resolved on first use, so that checking an address does not import a web server.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from twinraven.foundation.lazy import lazy_names

if TYPE_CHECKING:
    from twinraven.serving.authenticator import (
        BELIEVED_S,
        ENDING,
        VOUCHED,
        Authenticator,
        is_loopback,
    )
    from twinraven.serving.conditional import expected_version
    from twinraven.serving.connections import (
        CONNECTIONS,
        connection_name,
    )
    from twinraven.serving.contract import (
        LIMIT_SCHEMA,
        NAME_SCHEMA,
        Handler,
        JsonSchema,
        QueryParameter,
        RawBody,
        Request,
        Response,
        Route,
        RouteTable,
    )
    from twinraven.serving.cors import check_origins, with_cors
    from twinraven.serving.dispatch import (
        HttpApp,
    )
    from twinraven.serving.encoding import (
        encode_json,
    )
    from twinraven.serving.errors import (
        ServerEnding,
    )
    from twinraven.serving.idempotent_routes import (
        claim_key,
    )
    from twinraven.serving.listening import (
        AsgiApp,
        Message,
        Receive,
        Scope,
        Send,
        listener,
        open_socket,
        patience_for,
        run,
        serve,
    )
    from twinraven.serving.metrics import (
        MEDIA,
        HttpMetrics,
    )
    from twinraven.serving.mounting import (
        Mounted,
        alive,
    )
    from twinraven.serving.openapi import (
        describe_routes,
    )
    from twinraven.serving.paging import (
        Page,
        encode_cursor,
        long_page_of,
        page_of,
        slice_of,
    )
    from twinraven.serving.problems import (
        MatchRequired,
        TooLarge,
    )
    from twinraven.serving.processes import (
        keep_running,
    )
    from twinraven.serving.request_parsing import LARGEST_BODY, moment
    from twinraven.serving.secret_screening import (
        holds_secret,
        refuse_secrets,
    )
    from twinraven.serving.signals import ending_with, leave_at_once
    from twinraven.serving.stream_limit import TooManyStreams
    from twinraven.serving.stream_tokens import StreamTokens

__all__ = [
    "BELIEVED_S",
    "CONNECTIONS",
    "ENDING",
    "LARGEST_BODY",
    "LIMIT_SCHEMA",
    "MEDIA",
    "NAME_SCHEMA",
    "VOUCHED",
    "AsgiApp",
    "Authenticator",
    "Handler",
    "HttpApp",
    "HttpMetrics",
    "JsonSchema",
    "MatchRequired",
    "Message",
    "Mounted",
    "Page",
    "QueryParameter",
    "RawBody",
    "Receive",
    "Request",
    "Response",
    "Route",
    "RouteTable",
    "Scope",
    "Send",
    "ServerEnding",
    "StreamTokens",
    "TooLarge",
    "TooManyStreams",
    "alive",
    "check_origins",
    "claim_key",
    "connection_name",
    "describe_routes",
    "encode_cursor",
    "encode_json",
    "ending_with",
    "expected_version",
    "holds_secret",
    "is_loopback",
    "keep_running",
    "leave_at_once",
    "listener",
    "long_page_of",
    "moment",
    "open_socket",
    "page_of",
    "patience_for",
    "refuse_secrets",
    "run",
    "serve",
    "slice_of",
    "with_cors",
]


__getattr__ = lazy_names(__name__)
