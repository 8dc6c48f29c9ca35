"""Errors: what they say, and whether to try again.

    python examples/clusters/errors.py

It starts a cluster of its own, to make things go wrong. Lines with ``# ->`` are what it prints.
"""

from __future__ import annotations

import ottla
import ottla.sync

cluster = ottla.Cluster().start()
servers = cluster.bootstrap_servers
admin = ottla.sync.Admin(servers)
admin.start()
admin.create_topic(ottla.NewTopic("letters", 1, 1))

# %% All errors are ottla.ClientError. Each has Kafka's code, and says where it happened.
try:
    admin.create_topic(ottla.NewTopic("letters", 1, 1))
except ottla.ClientError as error:
    print(error.code.name, error.topic, error.retriable)
    # -> TOPIC_ALREADY_EXISTS letters False

# %% can_retry is a sentence. What matters most is whether it may have taken effect.
try:
    ottla.sync.Admin("127.0.0.1:1", call_timeout_ms=100).start()
except ottla.BrokerUnreachable as error:
    print(error.was_sent, "-", error.can_retry)
    # -> False - nothing of it was sent, so the same call can be made again

# %% Calls for several things have a result for each: one that fails does not hide the others.
for name, refused in admin.delete_topics(["letters", "never-there"]).items():
    print(name, "is deleted" if refused is None else refused.code.name)
    # -> letters is deleted
    # -> never-there UNKNOWN_TOPIC_OR_PARTITION

# %% A consumer without a rule for missing positions says so.
admin.create_topic(ottla.NewTopic("diary", 1, 1))
with ottla.sync.Consumer(servers, offset_reset="none") as consumer:
    consumer.assign([ottla.TopicPartition("diary", 0)])
    try:
        consumer.poll(30_000)
    except ottla.NoOffset as error:
        print(error)
        # -> topic 'diary' partition 0 has no position, and offset_reset is 'none'

# %% Mistakes of the program are TypeError and ValueError, with the name that was probably meant.
try:
    ottla.sync.Producer(servers, batch_size=1)  # type: ignore[call-arg]
except TypeError as mistake:
    print(str(mistake).split(": ")[-1])
    # -> 'batch_size' is called 'batch_bytes' here
try:
    ottla.ProducerConfig(acks=1, idempotent=True)
except ValueError as mistake:
    print(mistake)
    # -> idempotent needs acks='all', not 1
admin.close()
cluster.stop()
