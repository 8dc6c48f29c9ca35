"""The options of a secured cluster, from those of a cluster's seed."""

from __future__ import annotations

from types import MappingProxyType

from tests.simulation.cluster.options import (
    NETWORK_FAULTS,
    PROCESS_FAULTS,
    STORE_FAULTS,
    ClusterOptions,
    draw_cluster_options,
)
from tests.simulation.world.random import SimRandom

SASL_PORT = 9093
USERS = MappingProxyType({"admin": "admin-secret", "eve": "eve-secret"})
AUDIT_FILE = "/audit.log"
# A power cut takes lines that the audit log has not flushed, and a full disk those that it cannot
# write: the file, which is the evidence, would not be whole.
FAMILIES = (PROCESS_FAULTS, NETWORK_FAULTS, STORE_FAULTS)


def draw_secured_options(seed: int, chaos_s: float | None = None) -> ClusterOptions:
    """Everything follows from the seed."""
    options = draw_cluster_options(seed, chaos_s)
    random = SimRandom(seed, "secured options")
    faults: list[str] = []
    for family in FAMILIES:
        if random.chance(0.6):
            faults += random.sample(family, 1 + random.below(len(family)))
    topic_settings = {
        name: value
        for name, value in options.topic_settings.items()
        if name != "ottla.flush.before.ack"
    }
    return options._replace(
        unclean=False,
        topics=1,
        partitions=1,
        producers=1,
        consumers=0,
        keeps_topics=False,
        repeaters=(),
        moves=False,
        faults=tuple(faults),
        topic_settings=topic_settings,
        settings={**options.settings, **_secured(options.replicas, random)},
    )


def _secured(replicas: int, random: SimRandom) -> dict[str, str]:
    users = " ".join(f'user_{name}="{password}"' for name, password in USERS.items())
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    return {
        "inter.broker.listener.name": "PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": f"{module} required {users};",
        "connection.failed.authentication.delay.ms": "20",
        "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
        # Brokers and the workload stand on the open listener, of which no client of the outside is.
        "super.users": "User:ANONYMOUS",
        "ottla.audit.log": AUDIT_FILE,
        "ottla.audit.topic": "true",
        "ottla.audit.topic.replication.factor": str(replicas),
        "delegation.token.secret.key": "token-secret",
        "delegation.token.expiry.time.ms": str(random.choice((1_500, 4_000, 60_000))),
        "delegation.token.expiry.check.interval.ms": str(random.choice((500, 3_000, 60_000))),
    }
