"""A broker in its own process whose clients log in: without and with TLS, and brokers apart."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.support import certificates
from tests.support.broker_process import BrokerProcess
from tests.support.ports import free_row
from tests.support.sasl_broker import sasl_settings

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

HOST = "127.0.0.1"


class SecureProcess(BrokerProcess):
    """``port`` is the listener with SASL_PLAINTEXT, ``tls_port`` the one with SASL_SSL.

    alice and bob have the passwords of ``sasl_settings``. Brokers have ``brokers_port``, which is
    as open as theirs is in those settings."""

    def __init__(self, data_dir: Path, settings: Mapping[str, str] | None = None) -> None:
        first = free_row(3)
        super().__init__(data_dir, port=first)
        self.tls_port, self.brokers_port = first + 1, first + 2
        made = sasl_settings()
        plain = made["listener.name.sasl_plaintext.plain.sasl.jaas.config"]
        ends = {"SASL_PLAINTEXT": first, "SASL_SSL": first + 1, "BROKERS": first + 2}
        self._settings = {
            **made,
            "listeners": ",".join(f"{name}://{HOST}:{port}" for name, port in ends.items()),
            "listener.security.protocol.map": (
                "SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL,BROKERS:PLAINTEXT"
            ),
            "listener.name.sasl_ssl.plain.sasl.jaas.config": plain,
            "ssl.keystore.location": certificates.store("broker"),
            **(settings or {}),
        }

    def command(self) -> list[str]:
        """The command line without a port: all are in ``listeners``."""
        command = super().command()
        at = command.index("--port")
        del command[at : at + 2]
        for name, value in self._settings.items():
            command += ["-o", f"{name}={value}"]
        return command
