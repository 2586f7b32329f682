"""REST tools and where they are led: redirects, names that move, certificates."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from tests.servers.certificates import Authority
from tests.servers.http_server import Handler, Reply, serving
from tests.servers.internet import Internet
from tests.servers.rest_desk import GET, POST, Desk, always
from twinraven.connectors import AddressGuard, AddressRules
from twinraven.foundation.errors import (
    EffectUnknown,
    InvalidDefinition,
    PolicyViolation,
    ToolError,
    ToolUnavailable,
)


@pytest.fixture
async def desk() -> AsyncGenerator[Desk]:
    made = Desk()
    yield made
    await made.connector.aclose()


class TestRedirects:
    """Being sent elsewhere."""

    @staticmethod
    def _to(location: str, status: int = 302) -> Reply:
        return Reply(status, None, {"Location": location})

    async def test_reads_follow_on_the_same_server(self, desk: Desk) -> None:
        """A redirect within the origin is followed with everything the request had."""
        handler: Handler = lambda r: Reply(200, "there") if r.target == "/b" else self._to("/b")  # noqa: E731
        async with serving(handler) as server:
            assert await desk.call(GET, server.url, secret="s3cret") == "there"
        assert server.received[1].headers["authorization"] == "Bearer s3cret"

    @pytest.mark.parametrize(
        "location",
        [
            "http://169.254.169.254/latest/meta-data/",
            "http://[::ffff:169.254.169.254]/",
            "http://2852039166/",
            "//10.0.0.1/",
            "http://localhost:1/",
            "http://127.0.0.1:1/",
        ],
    )
    async def test_nobody_is_led_inside(self, location: str) -> None:
        """A public service cannot send us to an inner address, not even to one the operator allows its own tools."""
        net = Internet()
        rules = AddressRules.of(["127.0.0.0/8", "10.0.0.0/8"])
        net.names["localhost"] = ["127.0.0.1"]
        desk = Desk(guard=AddressGuard(rules, resolve=net.resolve), network=net)
        async with serving(lambda _: self._to(location)) as server:
            net.host("api.example", "93.184.216.34", server.port)
            with pytest.raises(PolicyViolation):
                await desk.call(GET, "http://api.example/")
        assert net.connected == ["93.184.216.34"]
        await desk.connector.aclose()

    async def test_strangers_are_shown_no_secret(self) -> None:
        """Beyond its own origin a request keeps neither credentials nor headers of the tool."""
        net = Internet()
        desk = Desk(guard=AddressGuard(AddressRules(), resolve=net.resolve), network=net)
        operation = {**GET, "headers": {"X-Session": "{{session}}"}}
        async with (
            serving(lambda _: self._to("http://other.example/x")) as first,
            serving(always(Reply(200, 1))) as other,
        ):
            net.host("api.example", "93.184.216.34", first.port)
            net.host("other.example", "8.8.8.8", other.port)
            answer = await desk.call(operation, "http://api.example", {"session": "abc"}, secret="s3cret")
        assert answer == 1
        assert "abc" in str(first.received)
        assert "s3cret" not in str(other.received)
        assert "abc" not in str(other.received)
        assert other.received[0].headers["host"] == "other.example"
        await desk.connector.aclose()

    @pytest.mark.parametrize(
        "location", ["file:///etc/passwd", "gopher://x/", "http://", "http://[", "\x00", "ftp://a.b/"]
    )
    async def test_only_http_is_followed(self, desk: Desk, location: str) -> None:
        """A redirect to anything else is the service's mistake."""
        async with serving(lambda _: self._to(location)) as server:
            with pytest.raises((ToolError, PolicyViolation, ToolUnavailable)):
                await desk.call(GET, server.url)

    async def test_a_ring_ends(self, desk: Desk) -> None:
        """Redirects in a circle end in an error."""
        async with serving(lambda r: self._to(f"{r.target}x")) as server:
            with pytest.raises(ToolError, match="more than 5 times"):
                await desk.call(GET, server.url)
        assert len(server.received) == 6

    @pytest.mark.parametrize("status", [301, 302])
    async def test_a_write_is_not_turned_into_something_else(self, desk: Desk, status: int) -> None:
        """A write is not repeated elsewhere by accident; the error says to change the endpoint."""
        async with serving(lambda _: self._to("/moved", status)) as server:
            with pytest.raises(ToolError, match="change the endpoint"):
                await desk.call(POST, server.url, {"text": "x"}, effect="write")
        assert len(server.received) == 1

    async def test_a_write_whose_result_is_elsewhere_is_not_sent_again(self) -> None:
        """A write that was taken, and whose result lies where nobody answers, is unknown; it was sent once."""
        net = Internet()
        desk = Desk(guard=AddressGuard(AddressRules(), resolve=net.resolve), network=net)
        async with serving(lambda _: self._to("http://nowhere.example/", 303)) as server:
            net.host("api.example", "93.184.216.34", server.port)
            with pytest.raises(EffectUnknown):
                await desk.call(POST, "http://api.example", {"text": "x"}, effect="write")
        assert len(server.received) == 1
        await desk.connector.aclose()

    @pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
    @pytest.mark.parametrize(
        "location",
        [
            "http://127.0.0.2:1/inside",
            "http://10.0.0.1/",
            "file:///etc/passwd",
            "http://2130706433/",
            "http://a b/",
        ],
    )
    async def test_a_write_that_is_led_astray_is_unknown(self, status: int, location: str) -> None:
        """The service has the request by then: wherever it points, nobody says that nothing was sent."""
        net = Internet()
        desk = Desk(guard=AddressGuard(AddressRules.of(["127.0.0.0/8"]), resolve=net.resolve), network=net)
        async with serving(lambda _: self._to(location, status)) as server:
            net.host("api.example", "93.184.216.34", server.port)
            with pytest.raises(EffectUnknown, match=r"took the POST and redirects, but .*effect is unknown"):
                await desk.call(POST, "http://api.example", {"text": "x"}, effect="write")
        assert len(server.received) == 1
        await desk.connector.aclose()

    async def test_a_request_without_a_body_that_writes_is_unknown_too(self, desk: Desk) -> None:
        """What counts is that the tool writes, not by which method it does."""
        async with serving(lambda _: self._to("file:///x")) as server:
            with pytest.raises(EffectUnknown, match="no http address"):
                await desk.call(GET, server.url, effect="write")

    async def test_a_write_that_is_recognised_keeps_its_reason(self, desk: Desk) -> None:
        """A write that may be sent again under its key fails for what is wrong with the redirect."""
        async with serving(lambda _: self._to("http://2130706433/", 303)) as server:
            with pytest.raises(PolicyViolation, match="disguise"):
                await desk.call(POST, server.url, {"text": "x"}, effect="write", key="k", idempotency_header="Key")

    @pytest.mark.parametrize("status", [404, 500, 503])
    async def test_a_result_that_cannot_be_shown_leaves_the_write_unknown(self, desk: Desk, status: int) -> None:
        """After 303 the effect may stand although its page fails; nobody is told to try again."""
        replies = {"/thing": self._to("/result", 303), "/result": Reply(status, "no")}
        async with serving(lambda r: replies[r.target]) as server:
            with pytest.raises(EffectUnknown, match=f"answered {status}"):
                await desk.call(POST, server.url, {"text": "x"}, effect="write")
        assert [request.method for request in server.received] == ["POST", "GET"]

    async def test_a_write_that_was_moved_and_refused_has_failed(self, desk: Desk) -> None:
        """307 says that nothing was done yet, so the refusal that follows is the answer."""
        replies = {"/thing": self._to("/there", 307), "/there": Reply(422, "no")}
        async with serving(lambda r: replies[r.target]) as server:
            with pytest.raises(ToolError, match="answered 422") as refused:
                await desk.call(POST, server.url, {"text": "x"}, effect="write")
        assert refused.value.code == "TOOL_FAILED"

    async def test_the_refusal_of_a_redirect_advises_nothing_in_vain(self, desk: Desk) -> None:
        """An address that the operator allows already is refused because of the redirect, and the error says so."""
        async with serving(lambda _: self._to("http://127.0.0.2:1/")) as server:
            with pytest.raises(PolicyViolation, match="a redirect may not lead inside") as refused:
                await desk.call(GET, server.url)
        assert "can allow" not in refused.value.message

    async def test_a_write_may_be_moved_within_its_server(self, desk: Desk) -> None:
        """307 keeps method and body on the same server, and 303 asks for the result."""
        replies: dict[str, Reply] = {
            "/thing": self._to("/there", 307),
            "/there": self._to("/result", 303),
            "/result": Reply(200, "made"),
        }
        async with serving(lambda r: replies[r.target]) as server:
            assert await desk.call(POST, server.url, {"text": "x"}, effect="write") == "made"
        assert [(r.method, r.body) for r in server.received] == [
            ("POST", b'{"text":"x"}'),
            ("POST", b'{"text":"x"}'),
            ("GET", b""),
        ]


class TestAddresses:
    """The address that was checked is the one that is connected to."""

    async def test_a_name_is_asked_for_once(self) -> None:
        """A name that changes its address behind the check gains nothing: there is no second look-up."""
        net = Internet()
        desk = Desk(guard=AddressGuard(AddressRules(), resolve=net.resolve), network=net)
        async with serving(always(Reply(200, "x"))) as server:
            net.host("api.example", "93.184.216.34", server.port)
            assert await desk.call(GET, "http://api.example") == "x"
            net.names["api.example"] = ["127.0.0.1"]
            assert await desk.call(GET, "http://api.example") == "x"
        assert net.asked == ["api.example"]
        assert net.connected == ["93.184.216.34"]
        assert server.received[0].headers["host"] == "api.example"
        await desk.connector.aclose()

    async def test_a_new_connection_is_checked_again(self) -> None:
        """When a name has moved inside by the time of the next connection, that connection is refused."""
        net = Internet()
        desk = Desk(guard=AddressGuard(AddressRules(), resolve=net.resolve), network=net)
        async with serving(always(Reply(200, "x", {"Connection": "close"}))) as server:
            net.host("api.example", "93.184.216.34", server.port)
            assert await desk.call(GET, "http://api.example") == "x"
            net.names["api.example"] = ["127.0.0.1"]
            with pytest.raises(PolicyViolation, match="not public"):
                await desk.call(GET, "http://api.example")
        await desk.connector.aclose()

    async def test_the_next_address_is_tried(self) -> None:
        """A name with a dead address and a live one is reached."""
        net = Internet()
        desk = Desk(guard=AddressGuard(AddressRules(), resolve=net.resolve), network=net)
        async with serving(always(Reply(200, "x"))) as server:
            net.host("api.example", "93.184.216.34", server.port)
            net.names["api.example"] = ["8.8.4.4", "93.184.216.34"]
            assert await desk.call(GET, "http://api.example") == "x"
        assert net.connected == ["8.8.4.4", "93.184.216.34"]
        await desk.connector.aclose()

    async def test_the_certificate_is_that_of_the_name(self, tmp_path: Path) -> None:
        """TLS goes to the checked address under the asked name, and trusts the authority the tool names."""
        authority, net = Authority(), Internet()
        desk = Desk(guard=AddressGuard(AddressRules(), resolve=net.resolve), network=net)
        context = authority.server_context(tmp_path, "api.example")
        async with serving(always(Reply(200, "x")), context=context) as server:
            net.host("api.example", "93.184.216.34", server.port)
            net.host("other.example", "93.184.216.34", server.port)
            assert await desk.call(GET, "https://api.example", ca_certificate=authority.pem) == "x"
            with pytest.raises(ToolError, match="certificate is not trusted"):
                await desk.call(GET, "https://other.example", ca_certificate=authority.pem)
            with pytest.raises(ToolError, match="certificate is not trusted"):
                await desk.call(GET, "https://api.example")
            with pytest.raises(ToolError, match="certificate is not trusted"):
                await desk.call(GET, "https://api.example", ca_certificate=Authority("another").pem)
            with pytest.raises(InvalidDefinition, match="ca_certificate"):
                await desk.call(GET, "https://api.example", ca_certificate="no certificate")
        await desk.connector.aclose()
