"""The names that well-known dashboards ask for are on the page."""

from __future__ import annotations

from ottla.client.producer import Producer
from tests.support.in_process import running_broker

# What the panels of Grafana's dashboard 7589 ask for, in the original and in Strimzi's variant,
# that a cluster without groups has.
OF_EXPORTER = (
    "kafka_topic_partitions",
    "kafka_topic_partition_replicas",
    "kafka_topic_partition_in_sync_replica",
    "kafka_topic_partition_under_replicated_partition",
    "kafka_topic_partition_leader_is_preferred",
    "kafka_topic_partition_current_offset",
    "kafka_topic_partition_oldest_offset",
    "kafka_cluster_partition_atminisr",
    "kafka_cluster_partition_underminisr",
)


async def test_each_panel_about_topics_finds_its_topic() -> None:
    """A dashboard with empty panels looks like a cluster without data."""
    async with running_broker() as running:
        async with Producer(str(running.broker.address), allow_auto_create=True) as producer:
            await (await producer.send("orders", b"x"))
        page = running.broker.pages.page("/metrics")
        assert page is not None
        lines = "".join(page.lines).splitlines()

    for name in OF_EXPORTER:
        assert any(one.startswith(f'{name}{{topic="orders"') for one in lines), name
    assert 'kafka_cluster_partition_atminisr{topic="orders",partition="0"} 1' in lines
    assert 'kafka_cluster_partition_underminisr{topic="orders",partition="0"} 0' in lines
