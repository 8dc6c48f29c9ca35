"""Znodes that brokers write about themselves and about their partitions, in a real ZooKeeper."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.api_versions import ApiVersionsRequest
from tests.broker.support.requests import batch, produce
from tests.support.raw_client import RawClient
from tests.zookeeper.in_process import ensemble, until
from tests.zookeeper.relay import Relay
from tests.zookeeper.shared import shared_server

if TYPE_CHECKING:
    from pathlib import Path

    from tests.zookeeper.in_process import Ensemble

SESSION_MS = "4000"
STATE = "/brokers/topics/t/partitions/0/state"


@pytest.mark.requirement("ZKT-03")
async def test_a_registration_has_an_endpoint_for_every_listener(tmp_path: Path) -> None:
    """Clients inside and outside of a network find the broker at different addresses."""
    async with ensemble(tmp_path) as site:
        await site.start(
            1,
            listeners="INSIDE://127.0.0.1:0,OUTSIDE://127.0.0.1:0",
            listener_security_protocol_map="INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT",
            inter_broker_listener_name="INSIDE",
        )
        registered = site.read("/brokers/ids/1")
        answers = []
        for endpoint in registered["endpoints"]:
            host, _, port = endpoint.partition("://")[2].rpartition(":")
            async with RawClient(host, int(port)) as client:
                answers.append((await client.call(0, ApiVersionsRequest())).error_code)

    names = [endpoint.partition("://")[0] for endpoint in registered["endpoints"]]
    assert names == ["INSIDE", "OUTSIDE"]
    assert len({*registered["endpoints"]}) == 2
    assert answers == [ErrorCode.NONE] * 2
    assert registered["timestamp"].isdigit()


async def written(site: Ensemble, node_id: int) -> float:
    """Produce one record with acks=all; the seconds until its answer."""
    loop = asyncio.get_running_loop()
    begun = loop.time()
    async with site.connect(node_id) as client:
        answer = await client.call(9, produce(batch(b"x")))
    assert answer.responses[0].partition_responses[0].error_code == ErrorCode.NONE
    return loop.time() - begun


@pytest.mark.requirement("REP-09", "REP-13", "REP-21")
async def test_the_leader_writes_an_isr_without_the_follower_that_stopped_fetching(
    tmp_path: Path,
) -> None:
    """Its session lives on, so the controller has no reason to act: it is the leader that takes it
    out, under the same leader epoch, and the writers go on."""
    async with ensemble(tmp_path) as site:
        await site.start(1, 2, 3, replica_lag_time_max_ms="1000")
        site.write("/brokers/topics/t", {"version": 1, "partitions": {"0": [1, 2, 3]}})
        await until(
            lambda: site.state("t") is not None and set(site.state("t")["isr"]) == {1, 2, 3}
        )
        await until(lambda: site.brokers[1].metadata.leader_of("t", 0)[0] == 1)
        await written(site, 1)
        before, version = site.state("t"), site.tree.get(STATE)[1].version
        await site.brokers[3].parts.fetchers.stop()
        waited_s = await written(site, 1)
        after = site.state("t")
        at_once_s = await written(site, 1)

        assert (set(before["isr"]), set(after["isr"])) == ({1, 2, 3}, {1, 2})
        assert (after["leader"], after["leader_epoch"]) == (1, before["leader_epoch"])
        assert site.tree.get(STATE)[1].version == version + 1
        assert sorted(site.tree.get_children("/brokers/ids")) == ["1", "2", "3"]
        assert at_once_s < waited_s


@pytest.mark.requirement("CTL-15")
async def test_a_broker_that_is_cut_off_from_zookeeper_loses_its_leaderships(
    tmp_path: Path,
) -> None:
    """Its process runs on. The watch on the registrations tells the controller that its session has
    ended, as when it crashes or is paused for too long."""
    port = int(shared_server().address.rpartition(":")[2])
    async with ensemble(tmp_path) as site, Relay(port) as relay:
        _, _, chroot = site.place.partition("/")
        await site.start(1, 2, zookeeper_session_timeout_ms=SESSION_MS)
        through_relay = f"{relay.address}/{chroot}"
        await site.start(
            3, zookeeper_session_timeout_ms=SESSION_MS, zookeeper_connect=through_relay
        )
        site.write("/brokers/topics/t", {"version": 1, "partitions": {"0": [3, 1, 2]}})
        await until(lambda: site.state("t") is not None and site.state("t")["leader"] == 3)
        before = sorted(site.tree.get_children("/brokers/ids"))
        relay.is_refusing = True
        relay.cut()
        await until(lambda: site.state("t")["leader"] == 1)
        state = site.state("t")
        after = sorted(site.tree.get_children("/brokers/ids"))
        known = {*site.brokers[1].metadata.image.brokers}
        relay.is_refusing = False

    assert (before, after, known) == (["1", "2", "3"], ["1", "2"], {1, 2})
    assert (state["leader_epoch"], sorted(state["isr"])) == (1, [1, 2])
