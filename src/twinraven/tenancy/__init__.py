"""Who there is: tenants, the users inside them, and the API keys by which a request becomes a user.

A tenant is the wall of the house: nothing is shared across it, and nothing that belongs to another can be told from
what is not there. An embedded home shows none of this: it has one tenant and one user, who are there from the start.
"""

from __future__ import annotations

from twinraven.tenancy.errors import NotAuthenticated
from twinraven.tenancy.model import (
    DIRECTORY,
    LOCAL,
    LOCAL_USER,
    ApiKey,
    IssuedKey,
    Principal,
    Role,
    TenancyChange,
    Tenant,
    User,
)
from twinraven.tenancy.service import Tenancy
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
    "SqlTenancyStore",
    "Tenancy",
    "TenancyChange",
    "TenancyStore",
    "Tenant",
    "User",
]
