"""Sends pages: with the headers that keep a browser from running, framing, keeping or passing on what it should not."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final
from urllib.parse import parse_qsl

from twinraven.console.static_files import StaticFile
from twinraven.serving import LARGEST_BODY, Message, Receive, Send, TooLarge

CONTENT_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; font-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
# With `no-referrer` browsers send `Origin: null` with a page's own forms.
_ALWAYS: Final = {
    "content-security-policy": CONTENT_POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}
_UNKEPT: Final = {"cache-control": "no-store", "vary": "Accept-Encoding, HX-Request"}
_KEPT: Final = {"cache-control": "public, max-age=31536000, immutable", "vary": "Accept-Encoding"}
_WORTH_PACKING: Final = 800
_LONG: Final = 50_000


class PageReply:
    """The way back of one request to the console."""

    def __init__(self, send: Send, headers: Mapping[bytes, bytes]) -> None:
        self._send = send
        self._takes_gzip = b"gzip" in headers.get(b"accept-encoding", b"")

    async def page(self, status: int, text: str) -> None:
        body = text.encode("utf-8", "replace")
        more = {"content-type": "text/html; charset=utf-8"}
        if self._takes_gzip and len(body) > _WORTH_PACKING:
            # A long page is packed beside the event loop: zlib needs no lock of the interpreter.
            is_long = len(body) > _LONG
            packed = await asyncio.to_thread(gzip.compress, body, 5) if is_long else gzip.compress(body, 5)
            body, more["content-encoding"] = packed, "gzip"
        await self._write(status, body, {**_UNKEPT, **more})

    async def data(self, body: bytes) -> None:
        await self._write(200, body, {**_UNKEPT, "content-type": "application/json; charset=utf-8"})

    async def text(self, status: int, text: str) -> None:
        await self._write(status, text.encode(), {**_UNKEPT, "content-type": "text/plain; charset=utf-8"})

    async def static(self, file: StaticFile) -> None:
        body, more = file.body, {"content-type": file.media}
        if self._takes_gzip and file.packed is not None:
            body, more["content-encoding"] = file.packed, "gzip"
        await self._write(200, body, {**_KEPT, **more})

    async def redirect(self, location: str, headers: Sequence[tuple[str, str]] = ()) -> None:
        await self._write(303, b"", {**_UNKEPT, "location": location, **dict(headers)})

    async def pass_on(self, app: Callable[[Send], Awaitable[None]]) -> None:
        """Let another application answer, with our headers besides its own."""

        async def send(message: Message) -> None:
            if message["type"] == "http.response.start":
                own = [(name.encode(), value.encode()) for name, value in _ALWAYS.items()]
                kept = [each for each in message["headers"] if each[0].decode() not in _ALWAYS]
                message = {**message, "headers": [*kept, *own]}
            await self._send(message)

        await app(send)

    async def _write(self, status: int, body: bytes, headers: Mapping[str, str]) -> None:
        stated = {**_ALWAYS, **headers, "content-length": str(len(body))}
        encoded = [(name.encode(), value.encode("latin-1")) for name, value in stated.items()]
        await self._send({"type": "http.response.start", "status": status, "headers": encoded})
        await self._send({"type": "http.response.body", "body": body})


async def read_form(receive: Receive) -> dict[str, str]:
    """Read the fields of a form."""
    body = b""
    while True:
        message = await receive()
        body += message.get("body", b"")
        if len(body) > LARGEST_BODY:
            raise TooLarge("the form is larger than 16 MiB")
        if not message.get("more_body"):
            return dict(parse_qsl(body.decode("utf-8", "replace"), keep_blank_values=True))
