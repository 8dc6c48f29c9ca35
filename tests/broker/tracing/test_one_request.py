"""One traced request: its steps, who may ask for them, and that they cost others nothing."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from ottla.broker.tracing.one_request import (
    WATCH_MS,
    WATCHES_MAX,
    ProgressStep,
    RequestTraces,
    first_beyond,
)
from ottla.protocol.acls import AclResourceType
from ottla.protocol.errors import ErrorCode
from ottla.protocol.headers import RequestHeader, encode_request_header
from ottla.protocol.messages import describe_configs
from tests.broker.support.requests import batch, create, fetch, fetched, produced
from tests.support.in_process import running_broker

if TYPE_CHECKING:
    from tests.support.in_process import RunningBroker
    from tests.support.raw_client import RawClient

BROKER_RESOURCE = 4


def marks(*rows: tuple[float, str, int]) -> list[ProgressStep]:
    return [ProgressStep(*row) for row in rows]


def test_a_step_is_the_moment_at_which_the_offset_was_passed() -> None:
    """Offsets move by batches: the first value above the record counts."""
    found = first_beyond(marks((1, "a", 3), (2, "a", 5), (3, "a", 9), (4, "b", 0), (5, "b", 5)), 5)

    assert found == {"a": 3}


def test_what_was_passed_before_the_first_look_has_no_time() -> None:
    """It is not known, and a time that is not known is not told."""
    assert first_beyond(marks((1, "a", 8), (2, "a", 9)), 5) == {}


def test_a_passage_that_was_cut_does_not_count() -> None:
    """A new leader may truncate the log, and the record is stored again later."""
    cut = marks((1, "a", 5), (2, "a", 6), (3, "a", 4))

    assert first_beyond(cut, 5) == {}
    assert first_beyond([*cut, *marks((4, "a", 7))], 5) == {"a": 4}


async def ask(client: RawClient, *names: str) -> Any:
    """Ask the broker for settings of that name, and return its result."""
    resource = describe_configs.DescribeConfigsResource(
        resource_type=BROKER_RESOURCE, resource_name="1", configuration_keys=list(names)
    )
    answer = await client.call(4, describe_configs.DescribeConfigsRequest(resources=[resource]))
    return answer.results[0]


async def steps(client: RawClient, offset: int) -> dict[str, Any]:
    result = await ask(client, f"ottla.trace.0.{offset}.t")
    assert result.error_code == ErrorCode.NONE, result.error_message
    found: dict[str, Any] = json.loads(result.configs[0].value)
    return found


def traces_of(running: RunningBroker) -> RequestTraces:
    requests = running.broker.state.requests
    assert requests is not None
    assert requests.services.traces is not None
    return requests.services.traces()


async def test_the_steps_of_a_produce_come_in_their_order() -> None:
    """Taken up, appended, answered; before the first question, no record has a time."""
    async with running_broker() as running, running.connect() as client:
        await create(client)
        await produced(client, batch(b"before"))
        await steps(client, -1)
        await produced(client, batch(b"traced"))
        found = await steps(client, 1)
        earlier = await steps(client, 0)

    names = [(step, api) for step, api, _time_ms in found["requests"]]
    times = {step: time_ms for step, _api, time_ms in found["requests"]}
    assert names == [("taken up", "Produce"), ("answered", "Produce"), ("handled", "Produce")]
    assert times["taken up"] <= found["steps"]["log end"] <= times["answered"]
    assert found["steps"].keys() == {"log end", "high watermark"}
    assert found["is_leader"] is True
    assert found["now_ms"] >= times["answered"]
    assert earlier["steps"] == {}


async def test_a_request_that_waits_for_a_handler_is_noted() -> None:
    """The broker's queue is a step of its own, before a handler takes the request up."""
    async with running_broker() as running, running.connect() as client:
        await create(client)
        await steps(client, -1)
        requests = running.broker.state.requests
        assert requests is not None
        assert requests.network.on_queued is not None
        frame = bytearray()
        encode_request_header(frame, RequestHeader(1, 12, 7, "raw"))
        requests.network.on_queued(memoryview(frame))
        requests.network.on_queued(memoryview(b"short"))
        found = await steps(client, 0)

    assert [(step, api) for step, api, _time_ms in found["requests"]] == [("queued", "Fetch")]


async def test_requests_of_other_clients_are_not_noted() -> None:
    """A busy broker would otherwise tell of the requests of all clients, and keep them."""
    async with running_broker() as running, running.connect() as client:
        await create(client)
        await steps(client, -1)
        async with running.connect() as other:
            other.send(12, fetch(0), client_id="another")
            await other.frame()
        await fetched(client, 0)
        found = await steps(client, 0)

    assert {api for _step, api, _time_ms in found["requests"]} == {"Fetch"}
    assert len(found["requests"]) == 3


async def test_a_watch_ends_by_itself_and_leaves_nothing() -> None:
    """Afterwards requests go to the dispatcher directly, as before."""
    async with running_broker() as running, running.connect() as client:
        await create(client)
        requests = running.broker.state.requests
        assert requests is not None
        before = requests.network.dispatch
        await steps(client, -1)
        traces = traces_of(running)
        during = requests.network.dispatch
        assert traces.count == 1
        for watch in list(traces._watches.values()):
            assert watch.parked is not None
            watch.parked.on_expire()
        after = requests.network.dispatch

    assert during != before
    assert after == before
    assert requests.network.on_queued is None
    assert traces.count == 0
    assert WATCH_MS <= 60_000


async def test_a_broker_watches_a_bounded_number_of_partitions() -> None:
    """Each keeps some thousand marks."""
    async with running_broker() as running, running.connect() as client:
        await create(client, partitions=WATCHES_MAX + 1)
        results = [
            await ask(client, f"ottla.trace.{number}.-1.t") for number in range(WATCHES_MAX + 1)
        ]
        many = await ask(client, *(f"ottla.trace.0.{number}.t" for number in range(9)))

    codes = [one.error_code for one in results]
    assert codes == [ErrorCode.NONE] * WATCHES_MAX + [ErrorCode.INVALID_REQUEST]
    assert many.error_code == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(
    ("refused", "code"),
    [
        (AclResourceType.CLUSTER, ErrorCode.CLUSTER_AUTHORIZATION_FAILED),
        (AclResourceType.TOPIC, ErrorCode.TOPIC_AUTHORIZATION_FAILED),
    ],
)
async def test_a_trace_needs_rights_for_the_cluster_and_the_topic(
    refused: AclResourceType, code: ErrorCode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It tells offsets and times of others' records, and makes the broker keep something."""
    async with running_broker() as running, running.connect() as client:
        await create(client)
        requests = running.broker.state.requests
        assert requests is not None
        authorizer = requests.services.authorizer

        def is_allowed(_context: object, _operation: object, kind: object, _name: str) -> bool:
            return kind is not refused

        monkeypatch.setattr(authorizer, "is_allowed", is_allowed, raising=False)
        result = await ask(client, "ottla.trace.0.-1.t")

    assert (result.error_code, result.configs) == (code, [])
    assert traces_of(running).count == 0


async def test_an_unknown_partition_is_an_error() -> None:
    """The command says so in one sentence."""
    async with running_broker() as running, running.connect() as client:
        await create(client)
        result = await ask(client, "ottla.trace.7.-1.t")

    assert result.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
