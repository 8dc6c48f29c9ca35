"""Settings: keywords, whole configurations, and files in Kafka's own words.

    python examples/clusters/settings.py [HOST:PORT]

Without an address it starts a cluster of its own. Lines with ``# ->`` are what it prints.
"""

from __future__ import annotations

import sys
import warnings
from dataclasses import replace

import ottla
import ottla.sync

cluster = ottla.Cluster()
servers = sys.argv[1] if sys.argv[1:] else cluster.start().bootstrap_servers
with ottla.sync.Admin(servers) as admin:
    admin.create_topic(ottla.NewTopic("plain", 1, 1))

# %% Every setting is a keyword of its client, which editors and type checkers know.
with ottla.sync.Producer(servers, linger_ms=20, compression="zstd", acks="all") as producer:
    print(producer.send("plain", b"by keywords").result().offset)
    # -> 0

# %% A configuration is an object that several clients may share, checked when it is made.
config = ottla.ProducerConfig(linger_ms=20, compression="lz4")
quick = replace(config, linger_ms=0)
with ottla.sync.Producer(servers, quick) as producer:
    print(producer.send("plain", b"by an object").result().offset, producer.config.compression)
    # -> 1 lz4

# %% Files for Java clients and for librdkafka are understood as they are.
properties = {
    "bootstrap.servers": servers,
    "linger.ms": "5",
    "request.required.acks": "-1",
    "compression.codec": "gzip",
}
config = ottla.ProducerConfig.from_properties(properties)
print(config.linger_ms, config.acks, config.compression)
# -> 5 -1 gzip

# %% A setting without meaning here warns and names its replacement; an unknown one is refused.
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    ottla.ProducerConfig.from_properties({"retries": "3"})
print(caught[0].message)
# -> retries has no effect: a batch is tried again until delivery_timeout_ms is over
try:
    ottla.ConsumerConfig.from_properties({"auto.ofset.reset": "earliest"})
except ValueError as error:
    print(error)
    # -> no setting is called 'auto.ofset.reset'; did you mean 'auto.offset.reset'?

# %% Settings of topics are the brokers' affair.
with ottla.sync.Admin(servers) as admin:
    change = ottla.ConfigChange("retention.ms", ottla.ConfigOperation.SET, "3600000")
    admin.alter_configs(ottla.ResourceType.TOPIC, "plain", [change])
    (entry,) = admin.describe_configs(ottla.ResourceType.TOPIC, "plain", ["retention.ms"])
    print(entry.value, entry.source.name)
    # -> 3600000 TOPIC
assert entry.value == "3600000"
cluster.stop()
