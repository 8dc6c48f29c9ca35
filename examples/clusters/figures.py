"""Metrics: what a broker reports to Prometheus, and its two pages about its health.

    python examples/clusters/figures.py

It starts a broker of its own. Lines with ``# ->`` are what it prints.
"""

from __future__ import annotations

import socket
from urllib.request import urlopen

import ottla
import ottla.sync

# %% In a shell it is ``ottla start --metrics 9100``; here a port that is free.
with socket.create_server(("127.0.0.1", 0)) as free:
    port = free.getsockname()[1]
cluster = ottla.Cluster(settings={"ottla.metrics.listener": f"127.0.0.1:{port}"}).start()
servers = cluster.bootstrap_servers


def page(path: str) -> str:
    """What is served there."""
    with urlopen(f"http://127.0.0.1:{port}{path}") as answer:
        text: str = answer.read().decode()
        return text


# %% Two pages for the supervisor that restarts unhealthy brokers and routes clients to ready ones.
assert page("/healthz") == "ok\n"
print("ready" if urlopen(f"http://127.0.0.1:{port}/readyz").status == 200 else "not ready")
# -> ready

# %% Something to count: a topic with ten records, and a group that has read four of them.
cluster.create_topic("mails")
with ottla.sync.Producer(servers) as producer:
    producer.send_batch("mails", [b"mail"] * 10)
with ottla.sync.Consumer(servers, group_id="readers", offset_reset="earliest") as consumer:
    consumer.subscribe(["mails"])
    done = 0
    while done < 4:
        done += len(consumer.poll(max_records=4 - done))

# %% The names are those that dashboards for Kafka know.
figures = {}
for line in page("/metrics").splitlines():
    if not line.startswith("#"):
        name, _, value = line.rpartition(" ")
        figures[name] = float(value)
lag = figures['kafka_consumergroup_lag_sum{consumergroup="readers",topic="mails"}']
print("behind by", lag)
# -> behind by 6.0
assert lag == 6
cluster.stop()
