"""Time travel: a week passes for the brokers within a second or two.

    python examples/clusters/time_travel.py

It starts a cluster of its own, whose clocks it moves. Lines with ``# ->`` are what it prints.
"""

from __future__ import annotations

import ottla
import ottla.sync

HOUR_MS = 3_600_000

# %% A topic whose records are kept for six hours, by the brokers' clocks.
cluster = ottla.Cluster().start()
servers = cluster.bootstrap_servers
configs = {"retention.ms": 6 * HOUR_MS, "message.timestamp.type": "LogAppendTime"}
cluster.create_topic("news", configs=configs)
where = ottla.TopicPartition("news", 0)
producer = ottla.sync.Producer(servers, linger_ms=0)
producer.start()
first = producer.send("news", b"morning edition").result()

# %% Eight hours later. Your program's clock stays where it is: only the brokers move.
cluster.faults.advance(8 * HOUR_MS)
second = producer.send("news", b"evening edition").result()
print("hours between them:", (second.timestamp - first.timestamp) // HOUR_MS)
# -> hours between them: 8

# %% What is too old is gone, and what is read begins behind it.
with ottla.sync.Consumer(servers, offset_reset="earliest") as consumer:
    consumer.assign([where])
    (record,) = consumer.poll(30_000)
print(record.offset, record.value)
# -> 1 b'evening edition'
assert record.value == b"evening edition"

# %% A transaction that its producer does not end is aborted after its timeout.
patient = ottla.sync.Producer(servers, transactional_id="forgetful", transaction_timeout_ms=60_000)
patient.start()
patient.init_transactions()
patient.begin_transaction()
patient.send("news", b"never seen").result()
cluster.faults.advance(2 * 60_000)
try:
    patient.commit_transaction()
except ottla.ProducerUnusable:
    print("too late")
    # -> too late
patient.close()
producer.close()
cluster.stop()
