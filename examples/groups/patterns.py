"""Patterns: subscribing to topics by their names, also to those that come later.

    python examples/groups/patterns.py [HOST:PORT]

Without an address it starts a cluster of its own. Lines with ``# ->`` are what it prints.
"""

from __future__ import annotations

import re
import sys

import ottla
import ottla.sync

# %% A cluster in this process, or the one whose address is given, and topics for two shops.
cluster = ottla.Cluster()
servers = sys.argv[1] if sys.argv[1:] else cluster.start().bootstrap_servers
admin = ottla.sync.Admin(servers)
admin.start()
admin.create_topics(
    [ottla.NewTopic(name, 1, 1) for name in ("shop-berlin", "shop-vienna", "staff")]
)
producer = ottla.sync.Producer(servers, linger_ms=0)
producer.start()
for topic in ("shop-berlin", "shop-vienna", "staff"):
    producer.send(topic, b"from " + topic.encode()).result()

# %% A compiled expression means all topics whose names begin with a match.
consumer = ottla.sync.Consumer(
    servers, group_id="shops", offset_reset="earliest", metadata_max_age_ms=100
)
consumer.start()
consumer.subscribe(re.compile("shop-"))
found: set[bytes | None] = set()
while len(found) < 2:
    found |= {record.value for record in consumer.poll(100)}
print(sorted(str(value) for value in found))
# -> ["b'from shop-berlin'", "b'from shop-vienna'"]

# %% A topic that is made later is found when the metadata is looked at next, every
# metadata_max_age_ms: five minutes, unless you say otherwise as above.
admin.create_topic(ottla.NewTopic("shop-zurich", 1, 1))
producer.send("shop-zurich", b"from shop-zurich").result()
while b"from shop-zurich" not in found:
    found |= {record.value for record in consumer.poll(100)}
topics = sorted({where.topic for where in consumer.assignment})
print(topics)
# -> ['shop-berlin', 'shop-vienna', 'shop-zurich']
assert b"from staff" not in found
consumer.close()
producer.close()
admin.close()
cluster.stop()
