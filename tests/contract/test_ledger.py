"""The ledger on both stores: it adds up to zero, is never overdrawn, and changes nothing that was posted."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from twinraven.foundation.errors import Conflict, IdempotencyConflict, InvalidInput, NotFound, TwinRavenError
from twinraven.foundation.ids import new_id
from twinraven.ledger import Ledger, LedgerOverdrawn, TransferRequest
from twinraven.ledger.service import LARGEST
from twinraven.storage import Database, Transaction, open_database

TENANT = "default"


def wish(key: str, source: str, target: str, amount: int, currency: str = "EUR") -> TransferRequest:
    return TransferRequest(key, source, target, amount, currency, "test", key)


@pytest.fixture
def ledger(database: Database) -> Ledger:
    made = Ledger(database)

    def work(tx: Transaction) -> None:
        for name in ("a", "b", "c"):
            made.open(tx, TENANT, name, "wallet", "EUR")
        made.open(tx, TENANT, "yen", "wallet", "JPY")
        made.open(tx, TENANT, "world", "outside", "EUR")

    connection = database.connect()
    with connection.transaction(TENANT, write=True) as tx:
        work(tx)
    connection.close()
    return made


async def _post(database: Database, ledger: Ledger, *wishes: TransferRequest) -> None:
    await database.write(TENANT, lambda tx: ledger.post(tx, TENANT, wishes))


async def test_a_transfer_moves_once_and_adds_up(database: Database, ledger: Ledger) -> None:
    """What one account loses another gains; the same key posts nothing twice, and means one transfer."""
    first = wish("k", "world", "a", 100)
    await _post(database, ledger, first)
    await _post(database, ledger, first, wish("l", "a", "b", 40))
    assert [(await ledger.account(TENANT, name)).balance for name in ("world", "a", "b")] == [-100, 60, 40]
    with pytest.raises(IdempotencyConflict):
        await _post(database, ledger, wish("k", "world", "a", 101))
    report = await ledger.verify(TENANT)
    assert (report.ok, report.sums, report.transfers) == (True, {"EUR": 0, "JPY": 0}, 2)
    assert [each.key for each in await ledger.statement(TENANT, "a")] == ["l", "k"]
    assert report.as_json()["ok"] is True


async def test_nothing_is_overdrawn_and_a_posting_is_whole(database: Database, ledger: Ledger) -> None:
    """Of transfers that belong together none is posted where one would overdraw."""
    await _post(database, ledger, wish("k", "world", "a", 10))
    with pytest.raises(LedgerOverdrawn, match="holds 10, and 11"):
        await _post(database, ledger, wish("m", "a", "b", 6), wish("n", "a", "c", 5))
    assert [(await ledger.account(TENANT, name)).balance for name in ("a", "b", "c")] == [10, 0, 0]


@pytest.mark.parametrize("change", [-1, 5])
async def test_the_database_refuses_what_the_code_would_not_do(database: Database, ledger: Ledger, change: int) -> None:
    """A balance below zero, a changed transfer and a deleted account are refused whoever writes."""
    await _post(database, ledger, wish("k", "world", "a", 10))
    for statement in (
        f"UPDATE ledger_accounts SET balance = {-abs(change)} WHERE account_id = 'a' AND tenant_id = :tenant",
        "UPDATE ledger_transfers SET amount = 1 WHERE tenant_id = :tenant",
        "DELETE FROM ledger_transfers WHERE tenant_id = :tenant",
        "DELETE FROM ledger_accounts WHERE tenant_id = :tenant",
        "UPDATE ledger_accounts SET currency = 'USD' WHERE tenant_id = :tenant",
    ):
        with pytest.raises(TwinRavenError):
            await database.write(TENANT, lambda tx, text=statement: tx.execute(text, tenant=TENANT))
    assert (await ledger.verify(TENANT)).ok


async def test_a_reversal_undoes_once(database: Database, ledger: Ledger) -> None:
    """A transfer is undone by one the other way; a reversal is not reversed, and nothing is undone twice."""
    await _post(database, ledger, wish("k", "world", "a", 10))
    (posted,) = await ledger.statement(TENANT, "a")
    first = await database.write(TENANT, lambda tx: ledger.reverse(tx, TENANT, posted.transfer_id))
    again = await database.write(TENANT, lambda tx: ledger.reverse(tx, TENANT, posted.transfer_id))
    assert (first.transfer_id, first.reverses) == (again.transfer_id, posted.transfer_id)
    assert (await ledger.account(TENANT, "a")).balance == 0
    with pytest.raises(Conflict, match="not reversed"):
        await database.write(TENANT, lambda tx: ledger.reverse(tx, TENANT, first.transfer_id))
    with pytest.raises(NotFound):
        await database.write(TENANT, lambda tx: ledger.reverse(tx, TENANT, "nothing"))


@pytest.mark.parametrize(
    ("bad", "field"),
    [
        (wish("x", "a", "b", 0), "amount"),
        (wish("x", "a", "b", -5), "amount"),
        (wish("x", "a", "b", 2**63), "amount"),
        (wish("x", "a", "b", True), "amount"),
        (wish("x", "a", "b", 1.5), "amount"),  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
        (wish("x", "a", "a", 5), "to_account"),
        (wish("x", "a", "yen", 5), "currency"),
        (wish("x", "a", "b", 5, "JPY"), "currency"),
        (wish("x", "a", "nowhere", 5), "to_account"),
    ],
)
async def test_what_is_no_transfer_is_refused(
    database: Database, ledger: Ledger, bad: TransferRequest, field: str
) -> None:
    """Floats, negative and huge amounts, one account, mixed currencies and unknown accounts name their field."""
    with pytest.raises((InvalidInput, NotFound)) as raised:
        await _post(database, ledger, bad)
    assert raised.value.details["field"] == field


async def test_an_account_is_what_it_was_opened_as(database: Database, ledger: Ledger) -> None:
    """A name stands for one kind and one currency; what was never opened is not there, and holds nothing."""
    with pytest.raises(Conflict, match="is a wallet in EUR"):
        await database.write(TENANT, lambda tx: ledger.open(tx, TENANT, "a", "budget", "EUR"))
    with pytest.raises(NotFound):
        await ledger.account(TENANT, "nowhere")
    assert await database.read(TENANT, lambda tx: ledger.balance(tx, TENANT, "nowhere")) == 0
    assert (await ledger.account(TENANT, "a")).as_json()["balance"] == 0


async def test_no_account_grows_beyond_what_can_be_counted(database: Database, ledger: Ledger) -> None:
    """An account that holds, or owes, almost all that can be counted takes no more, and every balance stays exact."""
    await _post(database, ledger, wish("k", "world", "a", LARGEST - 1))
    for number, bad in enumerate(
        ([wish("x", "world", "a", 2)], [wish("x", "world", "b", LARGEST), wish("y", "world", "c", LARGEST)])
    ):
        with pytest.raises(InvalidInput, match="more than can be counted") as raised:
            await _post(database, ledger, *bad)
        assert raised.value.details["field"] == "amount", number
    await _post(database, ledger, wish("l", "world", "a", 1))
    assert [(await ledger.account(TENANT, name)).balance for name in ("world", "a")] == [-LARGEST, LARGEST]
    assert (await ledger.verify(TENANT)).ok


@pytest.mark.parametrize("racers", [8])
async def test_a_hundred_is_spent_a_hundred_times(
    database: Database, ledger: Ledger, racers: int, *, full_scale: bool
) -> None:
    """Of racing debits of 1 against 100 exactly 100 succeed, on threads of their own."""
    await _post(database, ledger, wish("fund", "world", "a", 100))
    wanted = 1_000 if full_scale else 240

    def debit(racer: int) -> int:
        done, connection = 0, database.connect()
        try:
            for number in range(racer, wanted, racers):
                try:
                    with connection.transaction(TENANT, write=True) as tx:
                        ledger.post(tx, TENANT, [wish(f"d{number}", "a", "b", 1)])
                    done += 1
                except LedgerOverdrawn:
                    pass
        finally:
            connection.close()
        return done

    with ThreadPoolExecutor(racers) as pool:
        loop = asyncio.get_running_loop()
        counts = await asyncio.gather(*(loop.run_in_executor(pool, debit, racer) for racer in range(racers)))
    assert sum(counts) == 100
    report = await ledger.verify(TENANT)
    assert (report.ok, (await ledger.account(TENANT, "b")).balance) == (True, 100)


@pytest.fixture(scope="module")
def one_database(tmp_path_factory: pytest.TempPathFactory) -> Generator[Database]:
    """A database that all examples share, each with accounts of its own."""
    database = open_database(f"sqlite:///{tmp_path_factory.mktemp('ledger')}/ledger.db")
    database.migrate()
    yield database
    database.close()


@given(moves=st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from("abc"), st.integers(1, 50)), max_size=12))
@settings(max_examples=25)
def test_whatever_is_tried_the_books_add_up(one_database: Database, moves: list[tuple[str, str, int]]) -> None:
    """Any sequence of transfers leaves balances that a simple model has too."""
    ledger, model, mark = Ledger(one_database), {"a": 100, "b": 0, "c": 0}, new_id()
    connection = one_database.connect()
    with connection.transaction(TENANT, write=True) as tx:
        for name in model:
            ledger.open(tx, TENANT, mark + name, "wallet", "EUR")
        ledger.open(tx, TENANT, "world", "outside", "EUR")
        ledger.post(tx, TENANT, [wish(f"{mark}fund", "world", f"{mark}a", 100)])
    for number, (source, target, amount) in enumerate(moves):
        try:
            with connection.transaction(TENANT, write=True) as tx:
                ledger.post(tx, TENANT, [wish(f"{mark}{number}", mark + source, mark + target, amount)])
        except (LedgerOverdrawn, InvalidInput):
            assert source == target or model[source] < amount
        else:
            model[source] -= amount
            model[target] += amount
    with connection.transaction(TENANT, write=False) as tx:
        assert {name: ledger.balance(tx, TENANT, mark + name) for name in model} == model
    connection.close()
