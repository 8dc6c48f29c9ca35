"""Encryption of a cluster for tests: an authority and certificates of its own.

Files, because clients of every kind read them; they are deleted with the cluster.
"""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING

from ottla.broker.security.certificates import Authority, CryptographyMissing, Wish
from ottla.broker.system.temporary import make_directory, remove_directory
from ottla.broker.testing.members import ClusterError

if TYPE_CHECKING:
    from collections.abc import Callable

LOCAL = ("127.0.0.1", "::1", "localhost")
CLIENT = "CN=client,O=Ottla tests"


class ClusterSecurity:
    """``ssl``: the brokers show certificates; ``mtls``: clients have to, too.

    Raises ClusterError."""

    def __init__(self, kind: str) -> None:
        self._is_mutual = kind == "mtls"
        try:
            authority = Authority("Ottla test CA", days=90)
        except CryptographyMissing as error:
            raise ClusterError(str(error)) from None
        self.directory = make_directory()
        broker = authority.issue(Wish("CN=broker,O=Ottla tests", LOCAL, is_both=True, days=90))
        client = authority.issue(Wish(CLIENT, days=90))
        self._trust = self._write("ca.pem", authority.certificate)
        self._broker = self._write("broker.pem", broker.both)
        self._client = self._write("client.pem", client.both)
        self._certificate = self._write("client.crt", client.certificate)
        self._key = self._write("client.key", client.key)

    def _write(self, name: str, content: str) -> str:
        path = f"{self.directory}/{name}"
        with open(path, "w", encoding="ascii") as file:
            file.write(content)
        return path

    def broker_settings(self) -> dict[str, str]:
        """What each broker is started with besides its listeners."""
        return {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": self._broker,
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": self._trust,
            "ssl.client.auth": "required" if self._is_mutual else "none",
        }

    def of_client(self, library: str) -> dict[str, object]:
        """The settings that a client of that library needs."""
        makers: dict[str, Callable[[], dict[str, object]]] = {
            "aiokafka": self._of_aiokafka,
            "confluent": self._of_confluent,
            "java": self._of_java,
            "kafka-python": self._of_kafka_python,
            "ottla": self._of_java,
        }
        return makers[library]()

    def _of_java(self) -> dict[str, object]:
        own = {"ssl.keystore.type": "PEM", "ssl.keystore.location": self._client}
        return {
            "security.protocol": "SSL",
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": self._trust,
            **(own if self._is_mutual else {}),
        }

    def _of_confluent(self) -> dict[str, object]:
        own = {"ssl.certificate.location": self._certificate, "ssl.key.location": self._key}
        return {
            "security.protocol": "SSL",
            "ssl.ca.location": self._trust,
            **(own if self._is_mutual else {}),
        }

    def _of_kafka_python(self) -> dict[str, object]:
        own = {"ssl_certfile": self._certificate, "ssl_keyfile": self._key}
        return {
            "security_protocol": "SSL",
            "ssl_cafile": self._trust,
            **(own if self._is_mutual else {}),
        }

    def _of_aiokafka(self) -> dict[str, object]:
        context = ssl.create_default_context(cafile=self._trust)
        if self._is_mutual:
            context.load_cert_chain(self._client)
        return {"security_protocol": "SSL", "ssl_context": context}

    def remove(self) -> None:
        """Delete the files."""
        remove_directory(self.directory)
