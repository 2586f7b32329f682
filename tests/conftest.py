"""What all tests share: both stores, the link between tests and requirements, and the difference between `make test`
and `make soak`.
"""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from typing import Any, cast

import pytest
from blockbuster import BlockBuster, blockbuster_ctx
from hypothesis import settings as HypothesisSettings  # noqa: N812

from tests.neighbours import settle_tenants
from tests.postgres import EMPTY, PostgresLogin, PostgresServer, running_server
from tests.stores import copy_migrated
from tests.temporal import temporal_server
from tools.requirements import Outcomes, digest_sources, known_requirements
from twinraven.storage import Database, open_database

_outcomes = pytest.StashKey[Outcomes]()
_KINDS = ("unit", "contract", "acceptance", "integration")
_SERVERS = {"postgres_server", "restartable_postgres", "temporal_address"}


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("twinraven")
    group.addoption("--requirements", type=Path, metavar="FILE", help="write what became of each requirement")
    group.addoption("--req", metavar="ID", help="run only the tests that carry this requirement")
    group.addoption("--soak", action="store_true", help="run the long forms, and only those")


def pytest_configure(config: pytest.Config) -> None:
    # `make test` draws the same examples every time; `make soak` draws many, and new ones.
    long = HypothesisSettings(deadline=None, max_examples=2000, print_blob=True)
    short = HypothesisSettings(deadline=None, derandomize=True, max_examples=50)
    HypothesisSettings.register_profile("twinraven", long if config.getoption("--soak") else short)
    HypothesisSettings.load_profile("twinraven")
    if config.getoption("--requirements") is not None:
        config.stash[_outcomes] = Outcomes(digest_sources())
        config.pluginmanager.register(_OutcomeWriter(config))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    known = known_requirements()
    for item in items:
        for requirement in _requirements_of(item):
            if requirement not in known:
                raise pytest.UsageError(f"{item.nodeid} names {requirement}, which docs/requirements.toml does not")
            item.user_properties.append(("req", requirement))
    soaking, wanted = bool(config.getoption("--soak")), config.getoption("--req")
    left_out = [
        item
        for item in items
        if not (_has_long_form(item) if soaking else _has_short_form(item))
        or (wanted is not None and wanted not in _requirements_of(item))
    ]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]
    if wanted is not None:
        items.sort(key=_cost)


def _cost(item: pytest.Item) -> tuple[bool, int]:
    """How much a test costs by its look: Postgres and other servers take seconds to start, unit tests nothing."""
    needs_server = "postgres" in item.name or not _SERVERS.isdisjoint(getattr(item, "fixturenames", ()))
    kind = item.path.relative_to(item.config.rootpath).parts[1]
    return needs_server, _KINDS.index(kind) if kind in _KINDS else len(_KINDS)


def _requirements_of(item: pytest.Item) -> list[str]:
    return [requirement for marker in item.iter_markers("req") for requirement in marker.args]


def _has_long_form(item: pytest.Item) -> bool:
    return item.get_closest_marker("soak") is not None or "full_scale" in getattr(item, "fixturenames", ())


def _has_short_form(item: pytest.Item) -> bool:
    return item.get_closest_marker("soak") is None


class _OutcomeWriter:
    """Gathers reports, those of forked workers as well, and writes them once at the end."""

    def __init__(self, config: pytest.Config) -> None:
        self._file = cast("Path", config.getoption("--requirements"))
        self._outcomes = config.stash[_outcomes]

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        passed = report.passed and not hasattr(report, "wasxfail")
        if passed and report.when != "call":
            return
        for name, value in report.user_properties:
            if name == "req":
                lists = self._outcomes.passed if passed else self._outcomes.others
                lists.setdefault(str(value), []).append(report.nodeid)

    def pytest_sessionfinish(self) -> None:
        self._outcomes.write(self._file)


@pytest.fixture
def loop_guard() -> Generator[BlockBuster]:
    """Makes code of ours that blocks an event loop fail the test that asks for this."""
    with blockbuster_ctx("twinraven") as guard:
        yield guard


@pytest.fixture
def full_scale(request: pytest.FixtureRequest) -> bool:
    """Whether this is `make soak`: a test that asks runs in both, small in the one and in full in the other."""
    return bool(request.config.getoption("--soak"))


@pytest.fixture(scope="session")
def postgres_server() -> Generator[PostgresServer]:
    """The Postgres that all tests of this process share."""
    with running_server() as server:
        yield server


@pytest.fixture(scope="session")
def temporal_address(tmp_path_factory: pytest.TempPathFactory) -> Generator[str]:
    """The address of a Temporal server that all tests of this process share."""
    with temporal_server(tmp_path_factory.mktemp("temporal")) as address:
        yield address


@pytest.fixture
def restartable_postgres() -> Generator[PostgresServer]:
    """A Postgres for one test alone, which may stop and crash it."""
    with running_server() as server:
        yield server


@pytest.fixture
def postgres_login(postgres_server: PostgresServer) -> Generator[PostgresLogin]:
    """Addresses of a migrated Postgres database that is this test's own."""
    with postgres_server.fresh_database() as login:
        yield login


@pytest.fixture
def empty_postgres_login(postgres_server: PostgresServer) -> Generator[PostgresLogin]:
    """Addresses of a Postgres database without any schema."""
    with postgres_server.fresh_database(template=EMPTY) as login:
        yield login


@pytest.fixture
def sqlite_url(tmp_path: Path) -> str:
    """The address of a SQLite file that is not there yet."""
    return f"sqlite:///{tmp_path / 'twinraven.db'}"


def _tenants_of(request: pytest.FixtureRequest) -> list[str]:
    return [tenant_id for marker in request.node.iter_markers("tenants") for tenant_id in marker.args]


@pytest.fixture
def sqlite_database(request: pytest.FixtureRequest, sqlite_url: str) -> Generator[Database]:
    """A migrated SQLite database of this test's own."""
    copy_migrated(Path(sqlite_url.removeprefix("sqlite:///")))
    database = open_database(sqlite_url)
    settle_tenants(database, *_tenants_of(request))
    yield database
    database.close()


@pytest.fixture
def postgres_database(request: pytest.FixtureRequest, postgres_login: PostgresLogin) -> Generator[Database]:
    """A migrated Postgres database of this test's own, seen by a login that row-level security binds."""
    database = open_database(postgres_login.url, admin_url=postgres_login.admin_url)
    settle_tenants(database, *_tenants_of(request))
    yield database
    database.close()


@pytest.fixture(params=["sqlite", "postgres"])
def database(request: pytest.FixtureRequest) -> Database:
    """A migrated database of this test's own, on each store in turn."""
    return request.getfixturevalue(f"{request.param}_database")


@pytest.fixture(params=["sqlite", "postgres"])
def storage_settings(request: pytest.FixtureRequest) -> dict[str, Any]:
    """`storage.url` and `storage.admin_url` of an empty database, on each store in turn."""
    if request.param == "sqlite":
        return {"url": request.getfixturevalue("sqlite_url"), "admin_url": None}
    login: PostgresLogin = request.getfixturevalue("empty_postgres_login")
    return {"url": login.url, "admin_url": login.admin_url}
