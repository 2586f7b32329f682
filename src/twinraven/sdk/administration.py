"""Requests administration: approvals, secrets, audit log, users and their keys."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from datetime import datetime

from twinraven.foundation.clock import iso
from twinraven.sdk.exchange import RequestSpec, path_of
from twinraven.sdk.model import (
    ApprovalInfo,
    ApprovalState,
    AuditEntry,
    AuditReport,
    KeyInfo,
    PolicyInfo,
    Role,
    SecretInfo,
    StreamToken,
    UserInfo,
    UserKind,
)
from twinraven.sdk.reading import read
from twinraven.sdk.server_requests import ServerRequests, stated, tag_of


class AdministrationOperations(ServerRequests):
    """Governing, as far as the key allows."""

    def approvals(self, *, state: ApprovalState | None = None) -> AsyncGenerator[ApprovalInfo]:
        """List approvals, newest first."""
        return self._list(ApprovalInfo, "approvals", state=state)

    async def approval(self, approval_id: str) -> ApprovalInfo:
        """Return one of them."""
        return read(ApprovalInfo, await self._get("approvals", approval_id))

    async def grant(self, approval_id: str, *, note: str | None = None) -> ApprovalInfo:
        """Grant the call to run once; a repeat of it gets the stored answer."""
        return await self._decide(approval_id, "grant", note)

    async def deny(self, approval_id: str, *, note: str | None = None) -> ApprovalInfo:
        """Deny the call; a caller who repeats it gets the note."""
        return await self._decide(approval_id, "deny", note)

    async def _decide(self, approval_id: str, word: str, note: str | None) -> ApprovalInfo:
        ask = RequestSpec("POST", path_of("approvals", approval_id, word), body=stated({"note": note}))
        return read(ApprovalInfo, await self._exchange.json(ask))

    async def policy(self) -> PolicyInfo:
        """Return the rules that say what may be called."""
        return read(PolicyInfo, await self._get("policy"))

    def secrets(self) -> AsyncGenerator[SecretInfo]:
        """Return one's own secrets, without their values."""
        return self._list(SecretInfo, "secrets")

    async def secret(self, secret_id: str) -> SecretInfo:
        """Return the metadata of a secret."""
        return read(SecretInfo, await self._get("secrets", secret_id))

    async def add_secret(self, name: str, type: str, value: str, *, shared: bool = False) -> SecretInfo:
        """Keep a secret."""
        body = {"name": name, "type": type, "value": value, "shared": shared}
        return await self._make(SecretInfo, body, "secrets")

    async def rotate_secret(self, secret_id: str, value: str, *, version: int | None = None) -> SecretInfo:
        """Replace a secret's value; its id stays."""
        ask = RequestSpec(
            "PUT", path_of("secrets", secret_id, "value"), body={"value": value}, if_match=tag_of(version)
        )
        return read(SecretInfo, await self._exchange.json(ask))

    async def change_secret(
        self, secret_id: str, *, name: str | None = None, shared: bool | None = None, version: int | None = None
    ) -> SecretInfo:
        """Rename a secret, or share it."""
        body = stated({"name": name, "shared": shared})
        return await self._change(SecretInfo, body, "secrets", secret_id, version=version)

    async def delete_secret(self, secret_id: str, *, version: int | None = None) -> None:
        """Delete a secret that no tool uses."""
        await self._delete("secrets", secret_id, version=version)

    def audit(
        self,
        *,
        subject_type: str | None = None,
        subject_id: str | None = None,
        event_type: str | None = None,
        actor_id: str | None = None,
        correlation_id: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        newest: bool = False,
    ) -> AsyncGenerator[AuditEntry]:
        """Entries of the audit log, oldest first unless the newest are wanted first."""
        return self._list(
            AuditEntry,
            "audit",
            subject_type=subject_type,
            subject_id=subject_id,
            event_type=event_type,
            actor_id=actor_id,
            correlation_id=correlation_id,
            since=None if since is None else iso(since),
            until=None if until is None else iso(until),
            newest=newest,
        )

    async def audit_entry(self, entry_id: str) -> AuditEntry:
        """Return one entry, with its body where it was not erased."""
        return read(AuditEntry, await self._get("audit", entry_id))

    async def verify_audit(self) -> AuditReport:
        """Return whether the audit log is whole."""
        return read(AuditReport, await self._get("audit", "verification"))

    def users(self) -> AsyncGenerator[UserInfo]:
        """Return the users of the tenant."""
        return self._list(UserInfo, "users")

    async def user_names(self) -> dict[str, str]:
        """Return what the users of the tenant are called, by id; for those who decide."""
        return dict(await self._get("user-names"))

    async def user(self, user_id: str) -> UserInfo:
        """Return one of them."""
        return read(UserInfo, await self._get("users", user_id))

    async def add_user(self, name: str, *, role: Role = "member", kind: UserKind = "person") -> UserInfo:
        """Add a user to the tenant; what one of the kind `agent` does is recorded as an agent's."""
        return await self._make(UserInfo, {"name": name, "role": role, "kind": kind}, "users")

    async def change_user(
        self, user_id: str, *, role: Role | None = None, active: bool | None = None, version: int | None = None
    ) -> UserInfo:
        """Change a user's role, lock the user out, or let the user in again."""
        return await self._change(UserInfo, stated({"role": role, "active": active}), "users", user_id, version=version)

    def keys(self) -> AsyncGenerator[KeyInfo]:
        """List your API keys; for administrators, those of all users."""
        return self._list(KeyInfo, "keys")

    async def issue_key(
        self, *, user_id: str | None = None, label: str = "", expires_in_days: int | None = None
    ) -> KeyInfo:
        """Make an API key; `clear` is the key itself, here and nowhere else.

        It is not sent again where the answer was lost: the value would be lost, too, and the key would stay.
        """
        body = stated({"user_id": user_id, "label": label, "expires_in_days": expires_in_days})
        return read(KeyInfo, await self._exchange.json(RequestSpec("POST", path_of("keys"), body=body)))

    async def revoke_key(self, key_id: str) -> None:
        """Revoke an API key."""
        await self._exchange.send(RequestSpec("DELETE", path_of("keys", key_id)))

    async def stream_token(self) -> StreamToken:
        """Make a token that opens live streams, for a browser, which cannot send a key with EventSource."""
        return read(StreamToken, await self._exchange.json(RequestSpec("POST", path_of("stream-tokens"))))
