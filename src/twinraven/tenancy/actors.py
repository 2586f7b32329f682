"""Finds the actor behind a name: a user's id, the name of a person at the machine, or "system"."""

from __future__ import annotations

from twinraven.foundation.actors import Actor, person
from twinraven.storage import Transaction
from twinraven.tenancy.sql import SqlTenancyStore

SYSTEM_NAME = "system"


def actor_of(tx: Transaction, tenant_id: str, name: str) -> Actor:
    """Return the actor of this name, inside the transaction that records what they did.

    A user's kind never changes, so what is looked up is what it was. Whoever is no user of the tenant sits at the
    machine, and is a person.
    """
    if name == SYSTEM_NAME:
        return Actor("system", name)
    user = SqlTenancyStore().user(tx, tenant_id, name)
    return person(name) if user is None else user.actor
