"""Delivers requests to unreliable services: circuit breaker, retries, and the translation of failures into errors.

A request is sent again only if that can do no harm: it did not leave, or it reads, or the service recognises a
repetition by its key. For all others one try is all there is, and where its outcome is open the error says so
(EFFECT_UNKNOWN) instead of inviting a second effect.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from twinraven.connectors.breaker import BreakerAttempt, CircuitBreaker
from twinraven.connectors.http_model import HttpRequest, HttpResponse, NoAnswer, NotFollowed, NotSent
from twinraven.connectors.transport import HttpTransport
from twinraven.foundation.errors import EffectUnknown, ToolError, ToolTimeout, ToolUnavailable, TwinRavenError

Sleep = Callable[[float], Awaitable[None]]

_FIRST_DELAY_S = 0.2
_LONGEST_DELAY_S = 10.0
_MARGIN = 0.95  # what is left of a call's time is needed to say that it ran out
_EXCERPT_CHARS = 300
# What a gateway says when it lost the service behind it.
_LOST = frozenset({502, 504})
# The service says that it did not begin; 529 is how some models say 503.
_REFUSED = frozenset({408, 425, 429, 503, 529})
_WORTH_RETRYING = _LOST | _REFUSED | {500}
_SIGN_OF_TROUBLE = _LOST | {503, 529}


@dataclass(frozen=True, slots=True)
class DeliveryTerms:
    """On which terms a request is sent."""

    tenant_id: str
    tool_id: str
    timeout_ms: int
    is_repeatable: bool
    owner_id: str = ""
    """Whose tool it is; failures are counted for each owner apart."""


class HttpDelivery:
    """Sends requests until they are answered, as far as their terms allow."""

    def __init__(
        self, transport: HttpTransport, *, breaker: CircuitBreaker | None = None, sleep: Sleep = asyncio.sleep
    ) -> None:
        self.transport = transport
        self._breaker = breaker or CircuitBreaker()
        self._sleep = sleep

    async def deliver(self, request: HttpRequest, terms: DeliveryTerms) -> HttpResponse:
        """Return the answer, if it is a good one; otherwise an error that says whether to try again."""
        until = time.monotonic() + terms.timeout_ms * _MARGIN / 1000
        for number in range(1, self.transport.limits.attempts + 1):
            outcome = await self._try(request, terms, until)
            if isinstance(outcome, HttpResponse):
                return outcome
            delay = _delay(outcome, number)
            is_last = number == self.transport.limits.attempts or time.monotonic() + delay >= until
            is_heard = request.listener is not None and request.listener.has_heard
            if is_last or is_heard or not outcome.may_retry:
                raise outcome.error
            await self._sleep(delay)
        raise AssertionError("the last attempt returns or raises")

    async def _try(self, request: HttpRequest, terms: DeliveryTerms, until: float) -> HttpResponse | _Failure:
        origin = request.url.origin
        with self._breaker.attempt((terms.tenant_id, terms.owner_id, origin), name=str(origin)) as attempt:
            try:
                response = await self.transport.exchange(request, seconds=max(0.001, until - time.monotonic()))
            except NotSent as error:
                attempt.succeeded = False
                return _Failure(ToolUnavailable(str(error), tool_id=terms.tool_id), may_retry=True)
            except NotFollowed as error:
                return _Failure(_lost_track(error.reason, request, terms), may_retry=False)
            except NoAnswer as error:
                attempt.succeeded = False
                return _unanswered(error, terms)
            return _judge(response, request, terms, attempt)


@dataclass(frozen=True, slots=True)
class _Failure:
    error: TwinRavenError
    may_retry: bool
    retry_after_s: float | None = None


def _judge(
    response: HttpResponse, request: HttpRequest, terms: DeliveryTerms, attempt: BreakerAttempt
) -> HttpResponse | _Failure:
    status = response.status
    attempt.succeeded = status not in _SIGN_OF_TROUBLE
    if status < 300:
        return response
    wait = _retry_after(response)
    may_retry = terms.is_repeatable and status in _WORTH_RETRYING
    error = failure_of(response, request, terms, retry_after_s=wait)
    return _Failure(_lost_track(error, request, terms) if response.is_sequel else error, may_retry, wait)


def failure_of(
    response: HttpResponse, request: HttpRequest, terms: DeliveryTerms, *, retry_after_s: float | None = None
) -> TwinRavenError:
    """Translate a non-success response into the tool's error."""
    said = _excerpt(response, request)
    if response.status < 400:
        message = f"the service answered {response.status}, which names nothing to follow and is no result"
        if terms.is_repeatable:
            return ToolError(message, tool_id=terms.tool_id, status=response.status)
        unknown = f"{message}; whether it took effect is unknown"
        return EffectUnknown(unknown, tool_id=terms.tool_id, status=response.status)
    message = f"the service answered {response.status}{said}"
    if response.status in _LOST and not terms.is_repeatable:
        message = f"a gateway lost the service and answered {response.status}; whether it took effect is unknown"
        return EffectUnknown(message, tool_id=terms.tool_id, status=response.status)
    if response.status in _REFUSED or response.status in _LOST:
        waits = {} if retry_after_s is None else {"retry_after_s": retry_after_s}
        return ToolUnavailable(message, tool_id=terms.tool_id, status=response.status, **waits)
    if response.status in (401, 403):
        message = f"the service refuses the credentials it was shown ({response.status}){said}"
    return ToolError(message, tool_id=terms.tool_id, status=response.status)


def _lost_track(reason: TwinRavenError, request: HttpRequest, terms: DeliveryTerms) -> TwinRavenError:
    """Return what a redirect that cannot be followed to its end means: its server was asked, whatever came after."""
    if terms.is_repeatable or isinstance(reason, EffectUnknown):
        return reason
    return EffectUnknown(
        f"{request.url.origin} took the {request.method} and redirects, but {reason.message}; "
        "whether it took effect is unknown",
        tool_id=terms.tool_id,
        reason=reason.code,
    )


def _unanswered(error: NoAnswer, terms: DeliveryTerms) -> _Failure:
    if not terms.is_repeatable:
        unknown = EffectUnknown(f"{error}; whether it took effect is unknown", tool_id=terms.tool_id)
        return _Failure(unknown, may_retry=False)
    kind = ToolTimeout if error.timed_out else ToolUnavailable
    return _Failure(kind(str(error), tool_id=terms.tool_id), may_retry=not error.timed_out)


def _delay(failure: _Failure, number: int) -> float:
    """Twice as long each time and never the same for two callers; as long as the service asks, if it asks."""
    backoff = min(_LONGEST_DELAY_S, _FIRST_DELAY_S * 2 ** (number - 1)) * random.uniform(0.5, 1.0)
    return backoff if failure.retry_after_s is None else max(backoff, failure.retry_after_s)


def _retry_after(response: HttpResponse) -> float | None:
    """Seconds, or a date."""
    text = response.headers.get("retry-after", "").strip()
    if text.isascii() and text.isdecimal():
        return float(text[:9])
    if not text:
        return None
    from email.utils import parsedate_to_datetime

    try:
        return max(0.0, parsedate_to_datetime(text).timestamp() - time.time())
    except (ValueError, OverflowError):
        return None


def _excerpt(response: HttpResponse, request: HttpRequest) -> str:
    """Return the beginning of what an error says, on one line, without the secret some services repeat."""
    text = response.body.decode("utf-8", "replace")
    if request.credential is not None:
        text = request.credential.hidden_in(text)
    printable = "".join(character for character in " ".join(text.split()) if character.isprintable())
    return f": {printable[:_EXCERPT_CHARS]}" if printable else ""
