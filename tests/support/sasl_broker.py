"""A broker whose listener authenticates with SASL, and its users."""

from __future__ import annotations

from tests.support.in_process import running_broker as running_broker

MODULES = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}


def jaas(mechanism: str, **options: str) -> str:
    """One entry in Kafka's form."""
    pairs = " ".join(f'{name}="{value}"' for name, value in options.items())
    return f"{MODULES[mechanism]} required {pairs};"


def sasl_settings(*mechanisms: str, **more: str) -> dict[str, str]:
    """A broker with two listeners: for brokers without, and for clients with SASL_PLAINTEXT.

    The user alice has the password ``alice-secret``, in PLAIN."""
    plain = jaas("PLAIN", user_alice="alice-secret", user_bob="bob-secret")
    return {
        "listeners": "SASL_PLAINTEXT://127.0.0.1:0,BROKERS://127.0.0.1:0",
        "listener.security.protocol.map": "SASL_PLAINTEXT:SASL_PLAINTEXT,BROKERS:PLAINTEXT",
        "inter.broker.listener.name": "BROKERS",
        "sasl.enabled.mechanisms": ",".join(mechanisms or ("PLAIN",)),
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": plain,
        "connection.failed.authentication.delay.ms": "20",
        "group.initial.rebalance.delay.ms": "0",
        "offsets.topic.num.partitions": "1",
        "transaction.state.log.num.partitions": "1",
        **{name.replace("_", "."): value for name, value in more.items()},
    }
