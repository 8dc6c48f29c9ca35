"""Kafka's names of settings, from all versions of the Java clients and librdkafka, and ours."""

from __future__ import annotations

from ottla.client.records.serializers import decode_int, decode_text, encode_int, encode_text

# Several names of one setting may be given together only with the same value.
ALIASES = {
    # Every client.
    "client.id": "client_id",
    "request.timeout.ms": "request_timeout_ms",
    "socket.connection.setup.timeout.ms": "connect_timeout_ms",
    "default.api.timeout.ms": "call_timeout_ms",
    "metadata.max.age.ms": "metadata_max_age_ms",
    "topic.metadata.refresh.interval.ms": "metadata_max_age_ms",
    "allow.auto.create.topics": "allow_auto_create",
    # Producers.
    "transactional.id": "transactional_id",
    "transaction.timeout.ms": "transaction_timeout_ms",
    "acks": "acks",
    "request.required.acks": "acks",
    "enable.idempotence": "idempotent",
    "max.in.flight.requests.per.connection": "in_flight_max",
    "max.inflight.requests.per.connection": "in_flight_max",
    "max.in.flight": "in_flight_max",
    "compression.type": "compression",
    "compression.codec": "compression",
    "linger.ms": "linger_ms",
    "queue.buffering.max.ms": "linger_ms",
    "batch.size": "batch_bytes",
    "buffer.memory": "memory_bytes_max",
    "max.request.size": "request_bytes_max",
    "message.max.bytes": "request_bytes_max",
    "delivery.timeout.ms": "delivery_timeout_ms",
    "message.timeout.ms": "delivery_timeout_ms",
    "max.block.ms": "call_timeout_ms",
    "partitioner.class": "partitioner",
    "partitioner": "partitioner",
    "key.serializer": "key_serializer",
    "key.serializer.class": "key_serializer",
    "value.serializer": "value_serializer",
    "serializer.class": "value_serializer",
    # Consumers.
    "group.id": "group_id",
    "group.instance.id": "group_instance_id",
    "group.protocol": "group_protocol",
    "group.remote.assignor": "remote_assignor",
    "partition.assignment.strategy": "assignors",
    "session.timeout.ms": "session_timeout_ms",
    "heartbeat.interval.ms": "heartbeat_interval_ms",
    "max.poll.interval.ms": "max_poll_interval_ms",
    "enable.auto.commit": "auto_commit",
    "auto.commit.enable": "auto_commit",
    "auto.commit.interval.ms": "auto_commit_interval_ms",
    "auto.offset.reset": "offset_reset",
    "autooffset.reset": "offset_reset",
    "isolation.level": "isolation",
    "fetch.max.wait.ms": "fetch_wait_ms",
    "fetch.wait.max.ms": "fetch_wait_ms",
    "fetch.min.bytes": "fetch_bytes_min",
    "fetch.max.bytes": "fetch_bytes_max",
    "max.partition.fetch.bytes": "partition_bytes_max",
    "fetch.message.max.bytes": "partition_bytes_max",
    "check.crcs": "check_crc",
    "client.rack": "rack",
    "key.deserializer": "key_deserializer",
    "value.deserializer": "value_deserializer",
}

# Pairs of properties that are the ends of one range.
RANGES = {
    "reconnect.backoff.ms": ("reconnect_backoff", "initial_ms"),
    "reconnect.backoff.max.ms": ("reconnect_backoff", "limit_ms"),
    "retry.backoff.ms": ("retry_backoff", "initial_ms"),
    "retry.backoff.max.ms": ("retry_backoff", "limit_ms"),
    "send.buffer.bytes": ("socket", "send_buffer_bytes"),
    "receive.buffer.bytes": ("socket", "receive_buffer_bytes"),
    "socket.send.buffer.bytes": ("socket", "send_buffer_bytes"),
    "socket.receive.buffer.bytes": ("socket", "receive_buffer_bytes"),
}

# The bootstrap addresses are the first argument of a client, not a configuration field.
ADDRESSES = ("bootstrap.servers", "metadata.broker.list", "broker.list")

# Settings of Kafka's clients that have no effect here, and what replaces them.
WITHOUT_EFFECT = {
    "retries": "a batch is tried again until delivery_timeout_ms is over",
    "message.send.max.retries": "a batch is tried again until delivery_timeout_ms is over",
    "max.poll.records": "it is the argument max_records of poll()",
    "interceptor.classes": "interceptors are objects, given as interceptors=",
    "metric.reporters": "metrics are the broker's",
    "metrics.num.samples": "metrics are the broker's",
    "metrics.recording.level": "metrics are the broker's",
    "metrics.sample.window.ms": "metrics are the broker's",
    "auto.include.jmx.reporter": "metrics are the broker's",
    "enable.metrics.push": "metrics are the broker's",
    "connections.max.idle.ms": "an idle connection is kept until the broker closes it",
    "client.dns.lookup": "every address of a name is tried",
    "metadata.max.idle.ms": "topics are kept as long as they are in use",
    "metadata.recovery.strategy": "the bootstrap addresses are always tried again",
    "exclude.internal.topics": "internal topics are read only where they are named",
    "partitioner.adaptive.partitioning.enable": "batches move on when they are full",
    "partitioner.availability.timeout.ms": "partitions without a leader are avoided at once",
    "producer.type": "send() is asynchronous, and awaiting its delivery makes it synchronous",
}

# librdkafka's names of sizes in units of 1024 bytes.
KIBIBYTES = {
    "queue.buffering.max.kbytes": "memory_bytes_max",
    "queued.max.messages.kbytes": "fetch_bytes_max",
}
# Two settings of librdkafka, and one of ours: the smaller value is the one that holds.
LIMITS_OF_FETCH = {"fetch.max.bytes", "queued.max.messages.kbytes"}

# Settings whose value "true" is what happens in any case, and what to use in place of "false".
TRUE_ONLY = {
    "enable.auto.offset.store": "a commit covers what poll() has returned; to commit less, set "
    "enable.auto.commit=false and give commit() the offsets",
}

PARTITIONER_NAMES = {
    "DefaultPartitioner": "murmur2",
    "UniformStickyPartitioner": "sticky",
    "RoundRobinPartitioner": "round_robin",
    "murmur2_random": "murmur2",
    "fnv1a_random": "fnv1a",
}

ASSIGNOR_NAMES = {
    "RangeAssignor": "range",
    "RoundRobinAssignor": "roundrobin",
    "StickyAssignor": "sticky",
    "CooperativeStickyAssignor": "cooperative-sticky",
}

# The numbers come from compression.codec of Kafka 0.8.
COMPRESSION_NAMES = {"0": "none", "1": "gzip", "2": "snappy"}

RESET_NAMES = {
    "smallest": "earliest",
    "beginning": "earliest",
    "largest": "latest",
    "end": "latest",
    "error": "none",
}

SERIALIZERS = {
    "StringSerializer": encode_text,
    "StringEncoder": encode_text,
    "LongSerializer": encode_int,
    "ByteArraySerializer": None,
    "DefaultEncoder": None,
    "StringDeserializer": decode_text,
    "LongDeserializer": decode_int,
    "IntegerDeserializer": decode_int,
    "ShortDeserializer": decode_int,
    "ByteArrayDeserializer": None,
}
