"""A transaction that hangs is seen by who it belongs to, how far it holds back, and since when."""

from __future__ import annotations

from ottla.protocol.errors import ErrorCode
from tests.broker.housekeeping.test_housekeeping import ShiftedClock
from tests.broker.support.requests import batch, create
from tests.broker.support.transactions import (
    SMALL,
    StandIn,
    coordinated,
    in_transaction,
    marked,
    produced,
)
from tests.support.in_process import RunningBroker, running_broker
from tests.support.pages import figure, page, parse_figures

LAG = "kafka_cluster_partition_laststableoffsetlag"
AGE = "ottla_oldest_open_transaction_seconds"
LATE = "kafka_server_replicamanager_partitionswithlatetransactionscount"
FAILURES = "ottla_transaction_verification_failures_total"
PLACE = {"topic": "t", "partition": "0"}
MAX_TIMEOUT_MS = 900_000


async def figures(running: RunningBroker) -> tuple[float, float, float]:
    """Lag, age in seconds, and the count of partitions that are late."""
    await running.broker.parts.housekeeping.note_transactions()
    found = parse_figures((await page(running.broker.pages.address, "/metrics")).text)
    return figure(found, LAG, **PLACE), figure(found, AGE, **PLACE), figure(found, LATE)


async def test_a_hanging_transaction_shows_until_an_operator_ends_it() -> None:
    """Lag of the last stable offset and age of the oldest open transaction (T-25)."""
    clock = ShiftedClock()
    settings = {"ottla.metrics.listener": "127.0.0.1:0", **SMALL}
    async with running_broker(settings, clock=clock) as running, running.connect() as client:
        await create(client)
        await coordinated(client)
        coordinator = StandIn(running.broker)
        await produced(client, batch(b"x"))
        at_rest = await figures(running)
        await produced(client, in_transaction())
        await produced(client, batch(b"x"))
        begun = await figures(running)
        clock.pass_time(MAX_TIMEOUT_MS)
        old = await figures(running)
        clock.pass_time(6 * 60 * 1_000)
        late = await figures(running)
        await marked(client, commit=False)
        ended = await figures(running)
        coordinator.error = ErrorCode.INVALID_TXN_STATE
        await produced(client, in_transaction(1))
        found = parse_figures((await page(running.broker.pages.address, "/metrics")).text)

    assert [*at_rest, *ended] == [0] * 6
    assert (begun[0], begun[2]) == (2, 0)
    assert 0 <= begun[1] < 60
    assert 900 <= old[1] < 960
    assert (late[0], late[2]) == (2, 1)
    assert late[1] >= 1_260
    assert figure(found, FAILURES) == 1
