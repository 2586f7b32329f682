"""The desk as an agent sees it: twelve functions with types and docstrings, declared as tools.

They are what a team already has, and one line above each is all that TwinRaven asks for. Those that stay in the shop
are ordinary functions, those that ask somebody else's service (carrier, payment provider, search) are coroutines.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import Any

from examples.support_desk.desk import SupportDesk
from examples.support_desk.records import (
    Address,
    Articles,
    Note,
    Order,
    OrderAddress,
    OrderStatus,
    Product,
    Refund,
    RefundTerms,
    Tracking,
    User,
    UserRef,
)
from twinraven.catalog import Effect, FunctionTools, tool
from twinraven.foundation.errors import Conflict, InvalidInput


class DeskTools:
    """One method per tool."""

    def __init__(self, desk: SupportDesk) -> None:
        self._desk = desk

    @tool(effect="read")
    def find_user_by_email(self, email: str) -> UserRef:
        """Find a customer by the exact email address of the account."""
        self._spend("find_user_by_email", email=email)
        return self._desk.user_with_email(email)

    @tool(effect="read")
    def find_user_by_name_zip(self, first_name: str, last_name: str, zip_code: str) -> UserRef:
        """Find a customer by first name, last name and the zip code of the home address."""
        self._spend("find_user_by_name_zip", first_name=first_name, last_name=last_name, zip_code=zip_code)
        return self._desk.user_named(first_name, last_name, zip_code)

    @tool(effect="read")
    def get_user(self, user_id: str) -> User:
        """Read a customer: address, payment methods and the ids of all orders, newest first."""
        self._spend("get_user", user_id=user_id)
        return self._desk.user(user_id)

    @tool(effect="read")
    def get_order(self, order_id: str) -> Order:
        """Read an order: status, items, address and the tracking codes of its parcels."""
        self._spend("get_order", order_id=order_id)
        return self._desk.order(order_id)

    @tool(effect="read")
    def get_product(self, product_id: str) -> Product:
        """Read a product with its care instructions and all variants."""
        self._spend("get_product", product_id=product_id)
        return self._desk.product(product_id)

    @tool(effect="read")
    async def track_shipment(self, tracking_code: str) -> Tracking:
        """Ask the carrier where a parcel is and when it is expected."""
        await self._wait("track_shipment", tracking_code=tracking_code)
        return await asyncio.to_thread(self._desk.tracking, tracking_code)

    @tool(effect="read")
    async def check_refund_policy(self, order_id: str, variant_id: str) -> RefundTerms:
        """Say whether one item of an order may be refunded, how much, and to which payment method."""
        await self._wait("check_refund_policy", order_id=order_id, variant_id=variant_id)
        return await asyncio.to_thread(self._desk.refund_terms, order_id, variant_id)

    @tool(effect="read")
    async def search_kb(self, query: str, limit: int = 3) -> Articles:
        """Search the knowledge base for articles that share words with the query."""
        await self._wait("search_kb", query=query, limit=limit)
        if limit < 1:
            raise InvalidInput(f"limit is {limit}; give 1 or more", field="limit")
        return Articles(articles=await asyncio.to_thread(self._desk.articles, query, limit))

    @tool(effect="write")
    async def issue_refund(
        self, order_id: str, variant_id: str, amount_cents: int, payment_method_id: str, reason: str
    ) -> Refund:
        """Pay one item of an order back; amount and payment method must be those of the refund policy."""
        await self._wait("issue_refund", order_id=order_id, variant_id=variant_id, reason=reason)
        terms = await asyncio.to_thread(self._desk.refund_terms, order_id, variant_id)
        if not terms["eligible"]:
            raise Conflict(f"no refund: {terms['reason']}")
        if (amount_cents, payment_method_id) != (terms["refundable_cents"], terms["payment_method_id"]):
            raise Conflict("no refund: amount and payment method must be those of the refund policy")
        return await asyncio.to_thread(self._desk.pay_back, terms, reason)

    @tool(effect="write")
    def cancel_order(self, order_id: str, reason: str) -> OrderStatus:
        """Cancel a pending order."""
        self._spend("cancel_order", order_id=order_id)
        return self._desk.cancel(order_id, reason)

    @tool(effect="write")
    def update_address(self, order_id: str, street: str, zip_code: str, city: str) -> OrderAddress:
        """Send a pending order to another address."""
        self._spend("update_address", order_id=order_id)
        return self._desk.redirect(order_id, Address(street=street, zip_code=zip_code, city=city))

    @tool(effect="write")
    def add_note(self, user_id: str, text: str) -> Note:
        """Leave a note about a customer for the colleagues."""
        self._spend("add_note", user_id=user_id, text=text)
        return self._desk.note(user_id, text)

    def _spend(self, tool_id: str, **params: Any) -> None:
        toll = self._desk.weather.toll(tool_id, params)
        time.sleep(toll.seconds)
        if toll.fault is not None:
            raise toll.fault

    async def _wait(self, tool_id: str, **params: Any) -> None:
        toll = self._desk.weather.toll(tool_id, params)
        await asyncio.sleep(toll.seconds)
        if toll.fault is not None:
            raise toll.fault


_METHODS: list[Callable[..., Any]] = [method for name, method in vars(DeskTools).items() if not name.startswith("_")]

EFFECTS: Mapping[str, Effect] = {
    declared.tool_id: declared.effect or Effect.UNKNOWN for declared in map(FunctionTools().add, _METHODS)
}
"""What each tool can do to the desk, by tool id."""


def desk_tools(desk: SupportDesk) -> list[Callable[..., Any]]:
    """The tools over this desk, ready to be registered; a tool's id is its `__name__`."""
    tools = DeskTools(desk)
    return [getattr(tools, tool_id) for tool_id in EFFECTS]
