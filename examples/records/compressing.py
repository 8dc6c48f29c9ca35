"""Compression: which codecs there are, and what they save.

    python examples/records/compressing.py [HOST:PORT]

Without an address it starts a cluster of its own. Lines with ``# ->`` are what it prints.
"""

from __future__ import annotations

import sys
from typing import get_args

import ottla
import ottla.sync
from ottla.client.settings.config import Compression

# %% A cluster in this process, or the one whose address is given, and a topic for each codec.
cluster = ottla.Cluster()
servers = sys.argv[1] if sys.argv[1:] else cluster.start().bootstrap_servers
CODECS = get_args(Compression)
print(CODECS)
# -> ('none', 'gzip', 'snappy', 'lz4', 'zstd')

# %% The producer compresses whole batches: the more alike the records, the more it saves. Brokers
# keep batches as they came, and consumers know the codec by the batch: there is nothing to set.
lines = [b'{"sensor": "kitchen", "celsius": 21.%d}' % (number % 10) for number in range(2_000)]
admin = ottla.sync.Admin(servers)
admin.start()
for codec in CODECS:
    admin.create_topic(ottla.NewTopic(f"readings-{codec}", 1, 1))
    with ottla.sync.Producer(servers, compression=codec) as producer:
        producer.send_batch(f"readings-{codec}", lines).result()

# %% What is on the disks of the brokers.
sizes: dict[str, int] = {}
for directories in admin.brokers.log_dirs().values():
    assert not isinstance(directories, ottla.ClientError)
    for directory in directories:
        for replica in directory.replicas:
            sizes[replica.partition.topic] = replica.size_bytes
plain = sizes["readings-none"]
for codec in CODECS:
    print(f"{codec:>7} {100 * sizes[f'readings-{codec}'] // plain:>4} %")
# ->    none  100 %
# -> ...gzip... %
# -> ...snappy... %
# -> ...lz4... %
# -> ...zstd... %
assert sizes["readings-zstd"] < plain / 4

# %% The values are the same, whatever their way was.
with ottla.sync.Consumer(servers, offset_reset="earliest") as consumer:
    consumer.assign([ottla.TopicPartition("readings-zstd", 0)])
    first = consumer.poll(10_000)[0]
print(first.value)
# -> b'{"sensor": "kitchen", "celsius": 21.0}'
assert first.value == lines[0]
admin.close()
cluster.stop()
