"""Keeps tenants, the users inside them, and the API keys by which a request becomes a user.

A tenant is the wall of the house: nothing is shared across it, and nothing that belongs to another can be told from
what is not there. An embedded home shows none of this: it has one tenant and one user, who are there from the start.

Names are resolved on first use: whoever needs one part does not pay for the others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from twinraven.foundation.lazy import lazy_names

if TYPE_CHECKING:
    from twinraven.tenancy.actors import actor_of
    from twinraven.tenancy.errors import NotAuthenticated
    from twinraven.tenancy.keys import hash_key
    from twinraven.tenancy.model import (
        DIRECTORY,
        LOCAL,
        LOCAL_USER,
        ApiKey,
        IssuedKey,
        Principal,
        Role,
        SignIn,
        TenancyChange,
        Tenant,
        User,
        UserKind,
    )
    from twinraven.tenancy.service import Tenancy
    from twinraven.tenancy.sign_ins import SignIns
    from twinraven.tenancy.sql import SqlTenancyStore
    from twinraven.tenancy.store import TenancyStore

__all__ = [
    "DIRECTORY",
    "LOCAL",
    "LOCAL_USER",
    "ApiKey",
    "IssuedKey",
    "NotAuthenticated",
    "Principal",
    "Role",
    "SignIn",
    "SignIns",
    "SqlTenancyStore",
    "Tenancy",
    "TenancyChange",
    "TenancyStore",
    "Tenant",
    "User",
    "UserKind",
    "actor_of",
    "hash_key",
]


__getattr__ = lazy_names(__name__)
