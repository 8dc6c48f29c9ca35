"""The version in which Kafka introduced each setting, where it is known for certain.

Settings of brokers, topics and clients that have the same name have one entry for each kind.
"""

from __future__ import annotations

BROKERS = {
    "0.8.0": "auto.create.topics.enable default.replication.factor log.dir log.dirs num.partitions "
    "zookeeper.connect zookeeper.session.timeout.ms",
    "0.8.2": "inter.broker.protocol.version log.retention.ms max.connections.per.ip "
    "max.connections.per.ip.overrides min.insync.replicas num.recovery.threads.per.data.dir "
    "offsets.retention.minutes offsets.topic.num.partitions offsets.topic.replication.factor "
    "offsets.topic.segment.bytes unclean.leader.election.enable",
    "0.9.0": "advertised.listeners allow.everyone.if.no.acl.found authorizer.class.name "
    "broker.id.generation.enable group.max.session.timeout.ms group.min.session.timeout.ms "
    "listeners quota.window.num quota.window.size.seconds reserved.broker.max.id "
    "security.inter.broker.protocol ssl.client.auth ssl.key.password ssl.keystore.location "
    "ssl.keystore.password ssl.keystore.type ssl.truststore.location ssl.truststore.password "
    "ssl.truststore.type super.users zookeeper.set.acl",
    "0.10.0": "broker.rack log.message.timestamp.type sasl.enabled.mechanisms "
    "sasl.mechanism.inter.broker.protocol",
    "0.10.1": "follower.replication.throttled.rate leader.replication.throttled.rate "
    "log.cleaner.min.compaction.lag.ms replication.quota.window.num "
    "replication.quota.window.size.seconds",
    "0.10.2": "inter.broker.listener.name listener.security.protocol.map sasl.jaas.config",
    "0.11.0": "group.initial.rebalance.delay.ms transaction.max.timeout.ms "
    "transaction.state.log.min.isr transaction.state.log.num.partitions "
    "transaction.state.log.replication.factor transactional.id.expiration.ms",
    "1.1": "delegation.token.expiry.check.interval.ms delegation.token.expiry.time.ms "
    "delegation.token.master.key delegation.token.max.lifetime.ms "
    "max.incremental.fetch.session.cache.slots zookeeper.max.in.flight.requests",
    "2.1": "connection.failed.authentication.delay.ms",
    "2.2": "connections.max.reauth.ms group.max.size ssl.principal.mapping.rules",
    "2.3": "log.cleaner.max.compaction.lag.ms",
    "2.4": "replica.selector.class",
    "2.5": "fetch.max.bytes zookeeper.clientCnxnSocket zookeeper.ssl.client.enable "
    "zookeeper.ssl.keystore.location zookeeper.ssl.truststore.location",
    "2.7": "controller.quota.window.num controller.quota.window.size.seconds "
    "max.connection.creation.rate ssl.keystore.certificate.chain ssl.keystore.key "
    "ssl.truststore.certificates",
    "2.8": "controller.listener.names",
    "3.1": "sasl.oauthbearer.expected.audience sasl.oauthbearer.expected.issuer "
    "sasl.oauthbearer.jwks.endpoint.url sasl.oauthbearer.scope.claim.name "
    "sasl.oauthbearer.sub.claim.name",
    "3.4": "sasl.server.max.receive.size",
    "3.6": "log.message.timestamp.after.max.ms log.message.timestamp.before.max.ms "
    "transaction.partition.verification.enable",
    "3.7": "group.consumer.assignors group.consumer.heartbeat.interval.ms "
    "group.consumer.max.heartbeat.interval.ms group.consumer.max.session.timeout.ms "
    "group.consumer.max.size group.consumer.min.heartbeat.interval.ms "
    "group.consumer.min.session.timeout.ms group.consumer.session.timeout.ms telemetry.max.bytes",
    "3.8": "compression.gzip.level compression.lz4.level compression.zstd.level "
    "group.consumer.migration.policy",
}
TOPICS = {
    "0.8.1": "cleanup.policy delete.retention.ms flush.messages flush.ms index.interval.bytes "
    "max.message.bytes min.cleanable.dirty.ratio retention.bytes retention.ms segment.bytes "
    "segment.ms",
    "0.8.2": "min.insync.replicas segment.jitter.ms unclean.leader.election.enable",
    "0.9.0": "compression.type preallocate",
    "0.10.0": "message.timestamp.type",
    "0.10.1": "follower.replication.throttled.replicas leader.replication.throttled.replicas "
    "min.compaction.lag.ms",
    "2.3": "max.compaction.lag.ms",
    "3.6": "local.retention.bytes local.retention.ms message.timestamp.after.max.ms "
    "message.timestamp.before.max.ms remote.storage.enable",
    "3.8": "compression.gzip.level compression.lz4.level compression.zstd.level",
}
CLIENTS = {
    "0.8.0": "auto.commit.interval.ms auto.offset.reset client.id fetch.min.bytes group.id",
    "0.8.2": "acks batch.size buffer.memory compression.type key.serializer linger.ms "
    "max.in.flight.requests.per.connection max.request.size metadata.max.age.ms value.serializer",
    "0.9.0": "check.crcs enable.auto.commit fetch.max.wait.ms heartbeat.interval.ms "
    "key.deserializer max.partition.fetch.bytes partition.assignment.strategy request.timeout.ms "
    "session.timeout.ms value.deserializer",
    "0.10.1": "fetch.max.bytes max.poll.interval.ms",
    "0.11.0": "enable.idempotence isolation.level transaction.timeout.ms transactional.id",
    "2.0": "default.api.timeout.ms",
    "2.1": "delivery.timeout.ms",
    "2.3": "allow.auto.create.topics group.instance.id",
    "2.4": "client.rack",
    "2.7": "socket.connection.setup.timeout.ms",
    "3.7": "group.protocol group.remote.assignor",
}


def since(table: dict[str, str], name: str | None) -> str:
    """The version of a setting; "Ottla" for one that Kafka does not have, empty if it is not known.

    ``name`` is Kafka's; None for a keyword of Ottla's clients alone."""
    if name is None or name.startswith("ottla."):
        return "Ottla"
    return next((version for version, names in table.items() if name in names.split()), "")
