"""What a request of a limited client is charged, and when its connection stops being read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.api.metering import MeteredReply, metered
from ottla.broker.engine.context import RequestContext
from ottla.broker.quotas.client_limits import ClientBuckets, ClientLimits, Windows
from ottla.broker.quotas.quotas import Quotas
from ottla.broker.quotas.table import PRODUCE, REQUEST, QuotaTable
from ottla.protocol.apis import ApiKey
from ottla.protocol.messages.fetch import FetchRequest
from ottla.protocol.messages.heartbeat import HeartbeatResponse
from ottla.protocol.messages.produce import ProduceResponse
from tests.broker.support.node import HandClock

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ottla.broker.engine.context import ReplyPart


class Peer:
    """A connection that notes when it is muted."""

    connection_id = "c"
    listener = "PLAINTEXT"
    client_host = "h"
    principal = "User:u"
    closed = False
    has_hung_up = False

    def __init__(self) -> None:
        self.mutes: list[float] = []

    def on_close(self, callback: Callable[[], object]) -> None:
        raise NotImplementedError

    def mute(self, mute_ms: float) -> None:
        self.mutes.append(mute_ms)


class Reply:
    """Notes for how long the answer mutes its connection."""

    mute_ms = -1.0

    def send(self, parts: Sequence[ReplyPart], mute_ms: float = 0) -> None:
        self.mute_ms = mute_ms

    def skip(self) -> None:
        self.mute_ms = 0

    def close(self, reason: str) -> None:
        raise NotImplementedError


def limits(**rates: str) -> ClientLimits:
    table = QuotaTable()
    table.put("users", "u", rates)
    found = ClientBuckets(table, Windows()).limits_of("u", "c", 0)
    assert found is not None
    return found


def context(peer: Peer, key: ApiKey) -> RequestContext:
    return RequestContext(peer, key, 9, 1, "c", 0.0)


def test_a_producer_is_held_before_its_answer_is_there() -> None:
    """An answer may wait for replicas; a client that sends ahead would be read from meanwhile."""
    peer, now_ms = Peer(), 0.0
    reply = MeteredReply(
        Reply(), context(peer, ApiKey.PRODUCE), limits(**{PRODUCE: "1000"}), 3_000, lambda: now_ms
    )

    assert peer.mutes == [2_500]
    now_ms = 2_000.0
    response = ProduceResponse()
    assert reply.charge(response) == 500
    assert response.throttle_time_ms == 500


def test_a_hold_ends_when_it_was_to_end() -> None:
    """Time that the answer took is not added: the client would get less than its quota."""
    peer, now_ms = Peer(), 0.0
    inner = Reply()
    reply = MeteredReply(
        inner, context(peer, ApiKey.PRODUCE), limits(**{PRODUCE: "1000"}), 3_000, lambda: now_ms
    )
    now_ms = 5_000.0
    reply.send((b"x",), reply.charge(ProduceResponse()))

    assert inner.mute_ms == 0


def test_time_that_a_request_waits_is_not_charged() -> None:
    """A long poll costs the broker nothing."""
    now_ms = 0.0
    limited = limits(**{REQUEST: "100"})
    reply = MeteredReply(Reply(), context(Peer(), ApiKey.HEARTBEAT), limited, 10, lambda: now_ms)
    now_ms = 3.0
    reply.suspend()
    now_ms = 60_000.0
    reply.charge(HeartbeatResponse())

    assert limited.request is not None
    assert limited.request.used == 3.0


def test_a_produce_without_an_answer_holds_the_connection() -> None:
    """acks=0: nothing is sent, and nothing is read either."""
    peer, now_ms = Peer(), 0.0
    reply = MeteredReply(
        Reply(), context(peer, ApiKey.PRODUCE), limits(**{PRODUCE: "1000"}), 3_000, lambda: now_ms
    )
    reply.skip()

    assert peer.mutes[-1] == 2_500


def test_a_client_that_says_it_is_a_broker_is_charged() -> None:
    """Its request is refused, but refusing takes the broker's time, too."""
    quotas = Quotas(HandClock())
    quotas.table.put("users", "u", {REQUEST: "1"})
    fetch = FetchRequest(replica_id=3)
    asked = context(Peer(), ApiKey.FETCH)
    reply = Reply()

    assert metered(quotas, asked, fetch, 10, reply) is reply
    quotas.trusts = lambda _context: False
    assert isinstance(metered(quotas, asked, fetch, 10, reply), MeteredReply)
