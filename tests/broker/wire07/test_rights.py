"""A listener without logins opens nothing that access rules, quotas and limits close."""

from __future__ import annotations

import pytest

from ottla.broker.network.connection import MUTED
from ottla.broker.server.broker import CannotStart
from ottla.broker.system.memory_disk import MemoryDisk
from ottla.broker.wire07 import producing
from ottla.protocol.acls import (
    AclPattern,
    AclResourceType,
    AclRule,
    Operation,
    PatternType,
    Permission,
)
from ottla.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntryData,
    EntityData,
    OpData,
)
from tests.broker.support.requests import batch, create, produced
from tests.broker.wire07.site import Site07, site_07, values_of
from tests.protocol.wire07.client_07 import (
    LATEST,
    fetch_part,
    gzipped_07,
    message_07,
    produce_part,
)
from tests.support.in_process import running_broker
from tests.support.sasl_broker import sasl_settings

RULES = {"authorizer.class.name": "ottla.acl"}
ME = "User:ANONYMOUS"


async def _allow(site: Site07, operation: Operation, topic: str, principal: str = ME) -> None:
    acls = site.broker.requests.services.acls
    assert acls is not None
    pattern = AclPattern(AclResourceType.TOPIC, topic, PatternType.LITERAL)
    rule = AclRule(pattern, principal, "*", operation, Permission.ALLOW)
    errors = await acls.change({pattern: lambda rules: (*rules, rule)})
    assert errors == {pattern: None}


async def test_it_is_refused_where_rules_allow_it_nothing() -> None:
    """The operator learns why before a client does, and what to do."""
    with pytest.raises(CannotStart, match="no access rule allows anything to User:ANONYMOUS"):
        async with site_07(RULES):
            pytest.fail("it has started")


async def test_it_is_refused_beside_logins_that_no_rules_back() -> None:
    """Passwords would protect nothing: the sentence names what to set."""
    with pytest.raises(CannotStart, match=r"name KAFKA07 in ottla\.allow\.insecure\.listeners"):
        async with site_07(sasl_settings()):
            pytest.fail("it has started")


async def test_a_setting_opens_it_beside_logins() -> None:
    """Where its network is trusted."""
    named = sasl_settings(ottla_allow_insecure_listeners="kafka07")
    async with site_07(named) as site, site.connect_07() as old:
        assert await old.offsets("none", LATEST) == (0, [0])


@pytest.mark.parametrize(
    "more",
    [
        {},
        {**RULES, "super.users": "User:root;User:ANONYMOUS"},
        {**RULES, "allow.everyone.if.no.acl.found": "true"},
    ],
)
async def test_it_is_opened_where_anonymous_clients_may_do_something(more: dict[str, str]) -> None:
    """Without an authorizer every client may do everything."""
    async with site_07(more) as site, site.connect_07() as old:
        assert await old.offsets("none", LATEST) == (0, [0])


async def test_each_topic_needs_its_right() -> None:
    """A refusal is an error of the part, or ends the producer's connection."""
    disk = MemoryDisk()
    named = {**RULES, "super.users": ME}
    async with running_broker(named, disk) as running, running.connect() as today:
        for topic in ("open", "shut"):
            await create(today, topic)
            await produced(today, batch(b"x"), topic=topic)
        await _allow(Site07(running.broker), Operation.READ, "open", "User:*")
    async with site_07(RULES, disk=disk) as site:
        async with site.connect_07() as old:
            parts = [fetch_part("open", 0, 0), fetch_part("shut", 0, 0), fetch_part("gone", 0, 0)]
            assert await old.multifetch(parts) == [(0, message_07(b"x", 1)), (-1, b""), (-1, b"")]
            assert await old.offsets("open", LATEST) == (0, [11])
            assert await old.offsets("shut", LATEST) == (-1, [])
            assert await old.offsets("gone", LATEST) == (-1, [])
        for topic in ("open", "shut", "gone"):
            async with site.connect_07() as old:
                old.send(0, produce_part(topic, 0, message_07(b"y")))
                with pytest.raises(EOFError):
                    await old.answer()
        await _allow(site, Operation.WRITE, "open")
        async with site.connect_07() as old, site.connect() as today:
            old.produce("open", message_07(b"z"))
            assert await values_of(today, 0, 2, topic="open") == [b"x", b"z"]


async def test_messages_that_may_not_be_written_are_not_unpacked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A client without the right costs the broker no work: a few kilobytes unpack to millions."""
    disk = MemoryDisk()
    named = {**RULES, "super.users": ME}
    async with running_broker(named, disk) as running, running.connect() as today:
        await create(today)
        await _allow(Site07(running.broker), Operation.READ, "t")

    def unpack(*_arguments: object) -> bytes:
        pytest.fail("the messages were unpacked")

    monkeypatch.setattr(producing, "batch_of", unpack)
    async with site_07(RULES, disk=disk) as site, site.connect_07() as old:
        old.produce("t", message_07(b"x"))
        with pytest.raises(EOFError):
            await old.answer()


async def test_a_set_of_countless_messages_is_too_large() -> None:
    """As any set that is too large it is left out, and the connection goes on."""
    async with site_07() as site, site.connect() as today, site.connect_07() as old:
        await create(today)
        old.produce("t", gzipped_07(*[b""] * 200_000))
        old.produce("t", message_07(b"next"))
        assert await values_of(today, 0, 1) == [b"next"]


async def test_a_request_above_the_limit_ends_the_connection() -> None:
    """socket.request.max.bytes holds here, too: nothing is allocated for a claim."""
    async with site_07({"socket.request.max.bytes": "2000"}) as site, site.connect_07() as old:
        old.send(0, bytes(2_000))
        with pytest.raises(EOFError):
            await old.answer()


async def test_quotas_hold_its_clients() -> None:
    """A client above its rate is not read from for a while."""
    async with site_07() as site, site.connect() as today, site.connect_07() as old:
        await create(today)
        entry = AlterClientQuotasRequestEntryData(
            entity=[EntityData(entity_type="user", entity_name=None)],
            ops=[OpData(key="producer_byte_rate", value=1_000.0)],
        )
        await today.call(0, AlterClientQuotasRequest(entries=[entry]))
        listener = site.broker.state.listener_07
        assert listener is not None
        old.produce("t", message_07(b"x" * 20_000))
        await values_of(today, 0, 1)
        connections = [
            bool(connection.blocked & MUTED)
            for processor in listener.network._processors
            for connection in processor.connections
        ]
        assert connections == [True]


async def test_a_taken_port_is_said() -> None:
    """The operator chooses another one."""
    async with site_07() as site:
        address = site.broker.state.listener_07
        assert address is not None
        with pytest.raises(CannotStart, match=r"ottla\.listener\.07"):
            async with site_07({"ottla.listener.07": str(address.address)}):
                pytest.fail("it has started")
