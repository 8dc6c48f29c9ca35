"""What a client needs to connect to a cluster, in the words of its library."""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING

from ottla.protocol.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable


class ClientLogin(NamedTuple):
    """A user of the cluster."""

    mechanism: str
    user: str
    password: str


class Needs(NamedTuple):
    """All that a client may need, whatever its library. Paths are of PEM files."""

    servers: str
    protocol: str = "PLAINTEXT"
    trust: str | None = None
    store: str | None = None
    certificate: str | None = None
    key: str | None = None
    login: ClientLogin | None = None

    @property
    def addresses(self) -> list[str]:
        """The servers, one by one."""
        return self.servers.split(",")


def settings_of(library: str, needs: Needs) -> dict[str, object]:
    """The settings by that library's names. Raises KeyError."""
    return _given(_MAKERS[library](needs))


def _given(settings: dict[str, object]) -> dict[str, object]:
    return {name: value for name, value in settings.items() if value is not None}


def _of_java(needs: Needs) -> dict[str, object]:
    settings: dict[str, object] = {
        "bootstrap.servers": needs.servers,
        "ssl.truststore.type": needs.trust and "PEM",
        "ssl.truststore.location": needs.trust,
        "ssl.keystore.type": needs.store and "PEM",
        "ssl.keystore.location": needs.store,
    }
    if needs.protocol != "PLAINTEXT":
        settings["security.protocol"] = needs.protocol
    if needs.login is not None:
        settings["sasl.mechanism"] = needs.login.mechanism
        settings["sasl.jaas.config"] = _jaas(needs.login)
    return settings


def _jaas(login: ClientLogin) -> str:
    module = "org.apache.kafka.common.security.scram.ScramLoginModule"
    return f'{module} required username="{login.user}" password="{login.password}";'


def _of_librdkafka(needs: Needs) -> dict[str, object]:
    settings: dict[str, object] = {
        "bootstrap.servers": needs.servers,
        "ssl.ca.location": needs.trust,
        "ssl.certificate.location": needs.certificate,
        "ssl.key.location": needs.key,
    }
    if needs.protocol != "PLAINTEXT":
        settings["security.protocol"] = needs.protocol
    if needs.login is not None:
        settings["sasl.mechanism"] = needs.login.mechanism
        settings["sasl.username"] = needs.login.user
        settings["sasl.password"] = needs.login.password
    return settings


def _of_python(needs: Needs) -> dict[str, object]:
    """What kafka-python and aiokafka have in common."""
    settings: dict[str, object] = {"bootstrap_servers": needs.servers}
    if needs.protocol != "PLAINTEXT":
        settings["security_protocol"] = needs.protocol
    if needs.login is not None:
        settings["sasl_mechanism"] = needs.login.mechanism
        settings["sasl_plain_username"] = needs.login.user
        settings["sasl_plain_password"] = needs.login.password
    return settings


def _of_kafka_python(needs: Needs) -> dict[str, object]:
    return {
        **_of_python(needs),
        "ssl_cafile": needs.trust,
        "ssl_certfile": needs.certificate,
        "ssl_keyfile": needs.key,
    }


def _of_aiokafka(needs: Needs) -> dict[str, object]:
    if needs.trust is None:
        return _of_python(needs)
    context = ssl.create_default_context(cafile=needs.trust)
    if needs.store is not None:
        context.load_cert_chain(needs.store)
    return {**_of_python(needs), "ssl_context": context}


def _of_franz_go(needs: Needs) -> dict[str, object]:
    """Paths for ``kgo.DialTLSConfig``, the user for ``scram.Auth``."""
    sasl = needs.login and {
        "Mechanism": needs.login.mechanism,
        "User": needs.login.user,
        "Pass": needs.login.password,
    }
    return {
        "SeedBrokers": needs.addresses,
        "DialTLSConfig": needs.trust and _go_tls(needs),
        "SASL": sasl,
    }


def _of_sarama(needs: Needs) -> dict[str, object]:
    """The fields of ``sarama.Config``; paths in place of a ``tls.Config``."""
    settings: dict[str, object] = {"Addrs": needs.addresses}
    if needs.trust is not None:
        settings["Net.TLS.Enable"] = True
        settings["Net.TLS.Config"] = _go_tls(needs)
    if needs.login is not None:
        settings["Net.SASL.Enable"] = True
        settings["Net.SASL.Handshake"] = True
        settings["Net.SASL.Mechanism"] = needs.login.mechanism
        settings["Net.SASL.User"] = needs.login.user
        settings["Net.SASL.Password"] = needs.login.password
    return settings


def _go_tls(needs: Needs) -> dict[str, object]:
    return _given({"RootCAs": needs.trust, "Certificate": needs.certificate, "Key": needs.key})


def _of_kafkajs(needs: Needs) -> dict[str, object]:
    """What ``new Kafka(...)`` takes, as JSON."""
    sasl = needs.login and {
        "mechanism": needs.login.mechanism.lower(),
        "username": needs.login.user,
        "password": needs.login.password,
    }
    names = {"ca": needs.trust, "cert": needs.certificate, "key": needs.key}
    texts: dict[str, object] = {name: _text(path) for name, path in names.items() if path}
    return {"brokers": needs.addresses, "ssl": texts or None, "sasl": sasl}


def _text(path: str) -> str:
    with open(path, encoding="ascii") as file:
        return file.read()


_MAKERS: dict[str, Callable[[Needs], dict[str, object]]] = {
    "ottla": _of_java,
    "java": _of_java,
    "confluent": _of_librdkafka,
    "librdkafka": _of_librdkafka,
    "kafka-python": _of_kafka_python,
    "aiokafka": _of_aiokafka,
    "franz-go": _of_franz_go,
    "sarama": _of_sarama,
    "kafkajs": _of_kafkajs,
}
LIBRARIES = tuple(_MAKERS)
