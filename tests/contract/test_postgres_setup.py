"""Setting Postgres up: what `twinraven db upgrade` says where a login or a right is missing."""

from __future__ import annotations

from pathlib import Path

from tests.acceptance.cli import home_in
from tests.postgres import EMPTY, PostgresServer


def test_an_upgrade_without_rights_names_the_statement_that_gives_them(
    tmp_path: Path, postgres_server: PostgresServer
) -> None:
    """A login that may not make the schema is told so by its setting, with what a superuser must run."""
    with postgres_server.fresh_database(template=EMPTY) as login:
        shell = home_in(tmp_path)
        shell.env = {"TWINRAVEN__STORAGE__URL": login.url, "TWINRAVEN__STORAGE__ADMIN_URL": login.url}
        ended = shell.run("db", "upgrade")
    assert ended.code == 2
    assert "storage.admin_url may not upgrade the database: permission denied" in ended.err
    assert "CREATE ROLE twinraven_app NOLOGIN" in ended.err


def test_an_upgrade_before_the_login_exists_says_that_it_was_done(
    tmp_path: Path, postgres_server: PostgresServer
) -> None:
    """The migrations stay applied; the message says so and how to create the login of storage.url."""
    with postgres_server.fresh_database(template=EMPTY) as login:
        shell = home_in(tmp_path)
        stranger = login.url.replace("_app@", "_nobody@")
        shell.env = {"TWINRAVEN__STORAGE__URL": stranger, "TWINRAVEN__STORAGE__ADMIN_URL": login.admin_url}
        ended = shell.run("db", "upgrade")
        assert ended.code == 2
        assert "the schema is up to date" in ended.err
        assert "IN ROLE twinraven_app" in ended.err
        shell.env["TWINRAVEN__STORAGE__URL"] = login.url
        assert shell.json("db", "upgrade")["applied"] == []
