"""What an administrator's program can ask and change.

    python examples/clusters/administration.py [HOST:PORT]

Without an address it starts a cluster of its own. Lines with ``# ->`` are what it prints.
"""

from __future__ import annotations

import asyncio
import sys

import ottla


async def main(bootstrap: str) -> None:
    """Look around, make a topic, change it, and delete it again."""
    async with ottla.Admin(bootstrap) as admin:
        cluster = await admin.describe_cluster()
        print(f"cluster {cluster.cluster_id}, controller {cluster.controller_id}")
        # -> cluster ..., controller ...
        for broker in await admin.brokers.registered():
            print(f"broker {broker.node_id} at {broker.address}, fenced: {broker.is_fenced}")
            # -> broker 1 at ..., fenced: False

        await admin.create_topic(ottla.NewTopic("audit", 2, 1, {"retention.ms": "60000"}))
        change = ottla.ConfigChange("retention.ms", ottla.ConfigOperation.SET, "120000")
        await admin.alter_configs(ottla.ResourceType.TOPIC, "audit", [change])
        (entry,) = await admin.describe_configs(ottla.ResourceType.TOPIC, "audit", ["retention.ms"])
        print(f"{entry.name} = {entry.value}, from {entry.source.name}")
        # -> retention.ms = 120000, from TOPIC

        first = ottla.TopicPartition("audit", 0)
        async with ottla.Producer(bootstrap) as producer:
            await producer.send_batch("audit", [b"1", b"2", b"3"], partition=0)
        print("deleted up to", (await admin.delete_records({first: 2}))[first])
        # -> deleted up to 2

        for broker_id, directories in (await admin.brokers.log_dirs(topics=["audit"])).items():
            if not isinstance(directories, ottla.ClientError):
                sizes = [one.size_bytes for found in directories for one in found.replicas]
                print(f"broker {broker_id} holds {sum(sizes)} bytes of it")
                # -> broker 1 holds ... bytes of it

        results = await admin.delete_topics(["audit", "never-made"])
        for name, refused in results.items():
            print(name, "is deleted" if refused is None else refused.code.name)
            # -> audit is deleted
            # -> never-made UNKNOWN_TOPIC_OR_PARTITION


if __name__ == "__main__":
    cluster = ottla.Cluster()
    asyncio.run(main(sys.argv[1] if sys.argv[1:] else cluster.start().bootstrap_servers))
    cluster.stop()
