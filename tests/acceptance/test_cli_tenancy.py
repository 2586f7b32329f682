"""Tenants, users and API keys from a shell, on either store."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.acceptance.cli import Shell, call, calls_file, home_in
from tests.homes import all_text
from tests.postgres import PostgresLogin
from twinraven.app import open_home
from twinraven.tenancy import NotAuthenticated, Principal


@pytest.fixture(params=["sqlite", "postgres"])
def shell(request: pytest.FixtureRequest, tmp_path: Path) -> Shell:
    if request.param == "sqlite":
        return home_in(tmp_path)
    login: PostgresLogin = request.getfixturevalue("postgres_login")
    (tmp_path / "twinraven.yaml").write_text(
        f'storage: {{url: "{login.url}", admin_url: "{login.admin_url}"}}\n', "utf-8"
    )
    return home_in(tmp_path)


def who_enters_with(shell: Shell, key: str) -> Principal:
    with open_home(shell.folder / ".twinraven") as raven:
        return asyncio.run(raven.tenancy.authenticate(key))


def test_a_tenant_gets_users_and_keys_that_open_its_door_alone(shell: Shell) -> None:
    """The key that is printed stands for its user, in the tenant and the role that were chosen."""
    tenant = shell.json("tenants", "create", "acme")["tenant_id"]
    user = shell.json("users", "add", "alice", "--role", "admin", "--tenant", tenant)
    issued = shell.json("keys", "create", "alice", "--label", "laptop", "--expires-in", "90d", "--tenant", tenant)
    assert who_enters_with(shell, issued["key"]) == Principal(tenant, user["user_id"], "admin", issued["key_id"])
    assert {one["tenant_id"] for one in shell.json("tenants", "list")} == {"default", tenant}
    assert [one["name"] for one in shell.json("users", "list", "--tenant", tenant)] == ["alice"]
    assert [one["label"] for one in shell.json("keys", "list", "--tenant", tenant)] == ["laptop"]
    assert shell.json("keys", "list") == []
    shown = shell.json("tenants", "show", tenant)
    assert (shown["name"], shown["users"], shown["keys"]) == ("acme", 1, 1)


def test_a_revoked_key_opens_nothing(shell: Shell) -> None:
    """Revoking takes effect at once, is remembered, and is no error the second time."""
    issued = shell.json("keys", "create", "local")
    assert who_enters_with(shell, issued["key"]).user_id == "local"
    for _ in range(2):
        assert shell.json("keys", "revoke", issued["key_id"]) == {"revoked": issued["key_id"]}
    with pytest.raises(NotAuthenticated):
        who_enters_with(shell, issued["key"])
    assert shell.json("keys", "list")[0]["revoked_at"] is not None
    assert shell.json("tenants", "show", "default")["keys"] == 0


def test_a_key_is_shown_once_and_kept_nowhere(shell: Shell) -> None:
    """Neither a later command, nor the audit log, nor any file or table holds the key."""
    made = shell.succeed("keys", "create", "local")
    key = made.text.split()[1]
    assert key.startswith("tr_")
    assert "nobody can show this key again" in made.err
    assert key not in made.err
    for arguments in (("keys", "list"), ("keys", "list", "--output", "csv"), ("audit", "show", "--output", "json")):
        said = shell.succeed(*arguments)
        assert key.encode() not in said.out
        assert key not in said.err
    assert not [path for path in shell.folder.rglob("*") if path.is_file() and key.encode() in path.read_bytes()]
    with open_home(shell.folder / ".twinraven") as raven:
        assert key not in all_text(raven)
    issued = [entry for entry in shell.json("audit", "show") if entry["event_type"] == "api_key.issued"]
    assert len(issued) == 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("tenants", "show", "nobody"), "no tenant 'nobody'"),
        (("tenants", "create", " "), "name must have"),
        (("users", "list", "--tenant", "nobody"), "no tenant 'nobody'"),
        (("users", "add", "alice", "--tenant", "nobody"), "no tenant 'nobody'"),
        (("users", "add", "alice", "--role", "admn"), "did you mean admin?"),
        (("keys", "list", "--tenant", "nobody"), "no tenant 'nobody'"),
        (("keys", "create", "nobody"), "no user 'nobody'"),
        (("keys", "create", "local", "--expires-in", "soon"), "such as 90m, 12h or 7d"),
        (("keys", "create", "local", "--expires-in", "0d"), "must lie in the future"),
        (("keys", "create", "local", "--expires-in", "999999999w"), "such as 90m, 12h or 7d"),
        (("keys", "create", "local", "--expires-in", "99999999d"), "expires_in"),
        (("keys", "revoke", "nothing"), "no API key 'nothing'"),
    ],
)
def test_what_cannot_be_done_is_said(tmp_path: Path, arguments: tuple[str, ...], said: str) -> None:
    """Bad input ends with 2 and a sentence that names it."""
    ended = home_in(tmp_path).run(*arguments)
    assert (ended.code, said in ended.err) == (2, True), ended.err


def test_a_name_that_two_users_have_needs_the_id(tmp_path: Path) -> None:
    """A key is never made for the wrong one of two."""
    shell = home_in(tmp_path)
    first, _ = shell.json("users", "add", "alice"), shell.json("users", "add", "alice")
    refused = shell.run("keys", "create", "alice")
    assert (refused.code, "use the id" in refused.err) == (2, True)
    assert shell.json("keys", "create", first["user_id"])["user_id"] == first["user_id"]


def test_a_tenant_is_found_by_name_and_an_unknown_one_is_refused(shell: Shell) -> None:
    """`--tenant` takes the name or the id; nothing is stored or shown for a tenant that does not exist."""
    tenant = shell.json("tenants", "create", "acme")["tenant_id"]
    calls = str(calls_file(shell.folder / "calls.jsonl", [call("a", 1)]))
    for command in (("import", calls), ("sessions", "list"), ("audit", "verify"), ("learn",)):
        ended = shell.run(*command, "--tenant", "typo")
        assert (ended.code, "no tenant 'typo'; there is acme, " in ended.err) == (2, True), ended.err
    shell.succeed("import", calls, "--tenant", "acme")
    assert [one["session_id"] for one in shell.json("sessions", "list", "--tenant", tenant)] == ["a"]
    assert shell.json("sessions", "list") == []
    assert "there is a tenant 'acme' already" in shell.run("tenants", "create", "acme").err
