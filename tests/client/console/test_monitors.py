"""Lag over time, throughput, mirrors, Spark queries and the audit log of real brokers."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import ottla
from tests.client.console.site import console_of, words_of
from tests.client.support.sites import soon

if TYPE_CHECKING:
    import httpx


async def _json(browser: httpx.AsyncClient, path: str) -> dict[str, Any]:
    answer = await browser.get(f"/api{path}")
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


async def _send(cluster: ottla.Cluster, topic: str, count: int) -> None:
    async with ottla.Producer(cluster.bootstrap_servers) as producer:
        for _ in range(count):
            await producer.send(topic, b"x" * 100, partition=0)


async def test_the_lag_of_a_group_is_seen_over_time(
    brokers: ottla.Cluster, browser: httpx.AsyncClient
) -> None:
    """It grows while no member reads."""
    brokers.create_topic("lagging", partitions=1)
    where = ottla.TopicPartition("lagging", 0)
    await _send(brokers, "lagging", 5)
    async with ottla.Admin(brokers.bootstrap_servers) as admin:
        await admin.groups.commit("slow", {where: ottla.Committed(3)})
    first = await _json(browser, "/group?id=slow")
    await _send(brokers, "lagging", 10)

    found = await soon(
        lambda: _json(browser, "/group?id=slow"),
        lambda one: len(one["lag_over_time"]) > 1 and one["lag_over_time"][-1][1] == 12,
    )
    page = (await browser.get("/group?id=slow")).text

    assert first["lag_over_time"][0][1] == 2
    assert found["partitions"][0]["lag_over_time"][-1][1] == 12
    assert "<polyline" in page
    assert "from 2 to 12, at most 12" in page


async def test_throughput_is_told_by_broker_and_topic(
    brokers: ottla.Cluster, browser: httpx.AsyncClient
) -> None:
    """The busiest topic comes first; a look while no record comes tells zeros."""
    brokers.create_topic("flowing", partitions=1)
    first = await _json(browser, "/throughput")
    sending = asyncio.ensure_future(_send(brokers, "flowing", 500))
    found = await soon(
        lambda: _json(browser, "/throughput"),
        lambda one: bool(one["topics"]) and one["topics"][0]["records_per_second"] > 0,
    )
    await sending
    page = words_of((await browser.get("/throughput?search=flowing")).text)

    assert {row["broker"] for row in first["brokers"]} <= {1, 2, 3}
    assert found["topics"][0]["topic"] == "flowing"
    assert found["records_per_second"] >= found["topics"][0]["records_per_second"] > 0
    assert sum(row["records_per_second"] for row in found["brokers"]) > 0
    assert "Topics, the busiest first" in page


async def test_spark_queries_and_mirrors_have_a_page(
    brokers: ottla.Cluster, browser: httpx.AsyncClient
) -> None:
    """A Spark query by its group, a mirror by its client."""
    brokers.create_topic("read-by-spark", partitions=1)
    where = ottla.TopicPartition("read-by-spark", 0)
    await _send(brokers, "read-by-spark", 4)
    async with ottla.Admin(brokers.bootstrap_servers) as admin:
        await admin.groups.commit("spark-kafka-source-q1", {where: ottla.Committed(1)})
        await admin.groups.commit("neither", {where: ottla.Committed(1)})
    async with ottla.Consumer(
        brokers.bootstrap_servers,
        group_id="mirror.west",
        client_id="ottla-mirror",
        offset_reset="earliest",
    ) as consumer:
        await consumer.subscribe(["read-by-spark"])
        await consumer.poll(10_000)
        await consumer.commit()
        found = await soon(
            lambda: _json(browser, "/pipelines"),
            lambda one: [row["lag"] for row in one["readers"]] == [0, 3],
        )
        page = words_of((await browser.get("/pipelines")).text)

    rows = {row["group"]: row for row in found["readers"]}
    assert rows.keys() == {"spark-kafka-source-q1", "mirror.west"}
    assert (rows["spark-kafka-source-q1"]["kind"], rows["spark-kafka-source-q1"]["lag"]) == (
        "spark",
        3,
    )
    assert rows["mirror.west"]["kind"] == "mirror"
    assert found["copied"] == []
    assert "Spark query" in page


async def test_the_audit_log_has_a_page(browser: httpx.AsyncClient) -> None:
    """Where it goes to a topic; elsewhere the page says how."""
    assert "ottla.audit.topic=true" in (await browser.get("/audit")).text
    settings = {"ottla.audit.topic": "true", "ottla.audit.topic.replication.factor": "1"}
    with ottla.Cluster(
        security="sasl_plaintext",
        users={"ada": "pw"},
        acls=[
            ottla.Acl("User:ada", "Read,Describe", topic="__audit"),
            ottla.Acl("User:ada", "Create", cluster=True),
        ],
        settings=settings,
    ) as cluster:
        properties = {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "SCRAM-SHA-256",
            "sasl.username": "ada",
            "sasl.password": "pw",
        }
        async with console_of(cluster.bootstrap_servers, properties) as reader:
            # Refused, which the audit log tells.
            await reader.get("/api/security")
            found = await soon(
                lambda: _json(reader, "/audit"),
                lambda one: any(row["event"] == "refusal" for row in one["entries"]),
            )
            page = words_of((await reader.get("/audit?search=refusal")).text)

    assert "User:ada" in {row["principal"] for row in found["entries"]}
    assert "refusal" in page
