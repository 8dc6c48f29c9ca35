"""Encryption and logins of a test cluster: its own authority, certificates and users.

They are files, because every client reads them from there; they are deleted with the cluster.
"""

from __future__ import annotations

import os
import secrets
from typing import TYPE_CHECKING

from ottla.broker.cli.secure_files import MECHANISM, jaas_of
from ottla.broker.security.certificates import Authority, CryptographyMissing, Issued, Wish
from ottla.broker.server.first_users import FirstUser
from ottla.broker.system.temporary import make_directory, remove_directory
from ottla.broker.testing.cluster_node import (
    ADMIN,
    BROKERS,
    OF_BROKERS,
    broker_user,
    is_for_clients,
    is_own,
)
from ottla.broker.testing.members import ClusterError
from ottla.client.settings.library_names import ClientLogin, Needs, settings_of
from ottla.coordinator.configs.broker_principals import ID
from ottla.protocol.sasl.scram_record import SCRAM_MECHANISMS
from ottla.protocol.sasl.user_names import name_problem
from ottla.protocol.secret import Secret

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

LOCAL = ("127.0.0.1", "::1", "localhost")
CLIENT = "CN=client,O=Ottla tests"
PROTOCOLS = {
    "ssl": "SSL",
    "mtls": "SSL",
    "sasl_ssl": "SASL_SSL",
    "sasl_plaintext": "SASL_PLAINTEXT",
}
_DAYS = 90
_PASSWORD_BYTES = 16


class ClusterSecurity:
    """The files and users of one cluster.

    ``ssl``: the brokers show certificates; ``mtls``: clients have to, too; ``sasl_ssl`` and
    ``sasl_plaintext``: clients log in, as one of the users or as the super user ``admin``. Raises
    ClusterError."""

    def __init__(
        self,
        kind: str,
        users: Mapping[str, str],
        node_ids: Collection[int],
        *,
        has_rules: bool,
    ) -> None:
        self.protocol = PROTOCOLS[kind]
        self._is_mutual = kind == "mtls"
        self._has_rules = has_rules
        self._authority: Authority | None = None
        # The present passwords; for a deleted user the last one.
        self.passwords = dict(users)
        self.directory = make_directory()
        try:
            if self.is_encrypted:
                self._make_certificates()
        except CryptographyMissing as error:
            self.remove()
            raise ClusterError(str(error)) from None
        if self.has_logins:
            self._own_users = [ADMIN, *map(broker_user, node_ids)]
            for name in self._own_users:
                self.passwords[name] = secrets.token_urlsafe(_PASSWORD_BYTES)

    @property
    def is_encrypted(self) -> bool:
        """Whether its listeners encrypt."""
        return self.protocol.endswith("SSL")

    @property
    def has_logins(self) -> bool:
        """Whether its clients log in."""
        return self.protocol.startswith("SASL")

    def first_users(self) -> list[FirstUser]:
        """The users to be created before the first broker starts."""
        return [
            FirstUser(name, mechanism, Secret(password))
            for name, password in self.passwords.items()
            for mechanism in SCRAM_MECHANISMS.values()
        ]

    def broker_settings(self, node_id: int) -> dict[str, str]:
        """Return a broker's settings besides its listeners."""
        settings: dict[str, str] = {}
        if self.is_encrypted:
            settings = {
                "ssl.keystore.type": "PEM",
                "ssl.keystore.location": self._path(f"broker-{node_id}.pem"),
                f"listener.name.{BROKERS.lower()}.ssl.keystore.location": self._path("broker.pem"),
                "ssl.truststore.type": "PEM",
                "ssl.truststore.location": self._path("ca.pem"),
                "ssl.client.auth": "required" if self._is_mutual else "none",
            }
            self._write_broker(node_id, _DAYS)
        if self.has_logins:
            settings["sasl.enabled.mechanisms"] = ",".join(SCRAM_MECHANISMS)
            settings["sasl.mechanism.inter.broker.protocol"] = MECHANISM
            settings["sasl.jaas.config"] = jaas_of(
                broker_user(node_id), self.passwords[broker_user(node_id)]
            )
            settings["ottla.broker.principals"] = f"User:{OF_BROKERS}{ID}"
        if self._has_rules:
            authorizer = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
            settings["authorizer.class.name"] = authorizer
            settings["super.users"] = ";".join(f"User:{name}" for name in self._own_users)
        return settings

    def of_client(self, library: str, servers: str, user: str | None = None) -> dict[str, object]:
        """Return the addresses and settings for a client of that library. Raises ClusterError."""
        login = None
        if self.has_logins:
            name = ADMIN if user is None else user
            if name not in self.passwords:
                known = ", ".join(sorted(filter(is_for_clients, self.passwords)))
                raise ClusterError(f"the cluster has no user {name!r}, only {known}")
            login = ClientLogin(MECHANISM, name, self.passwords[name])
        elif user is not None:
            raise ClusterError(
                "only a cluster with security='sasl_ssl' or 'sasl_plaintext' has users"
            )
        needs = Needs(
            servers,
            self.protocol,
            trust=self._path("ca.pem") if self.is_encrypted else None,
            store=self._path("client.pem") if self._is_mutual else None,
            certificate=self._path("client.crt") if self._is_mutual else None,
            key=self._path("client.key") if self._is_mutual else None,
            login=login,
        )
        return settings_of(library, needs)

    # ---- certificates that end ----

    def expire_broker(self, node_id: int) -> None:
        """Give the broker an expired certificate for clients."""
        self._write_broker(node_id, -1)

    def renew(self, node_ids: tuple[int, ...]) -> None:
        """Give brokers and clients valid certificates again."""
        for node_id in node_ids:
            self._write_broker(node_id, _DAYS)
        if self._is_mutual:
            self._write_client(_DAYS)

    def expire_client(self) -> None:
        """Put an expired certificate into the clients' files. Raises ClusterError."""
        if not self._is_mutual:
            raise ClusterError("clients show certificates with security='mtls' only")
        self._write_client(-1)

    # ---- files ----

    def _make_certificates(self) -> None:
        self._authority = Authority("Ottla test CA", days=_DAYS)
        self._write("ca.pem", self._authority.certificate)
        self._write("broker.pem", self._issue("CN=broker,O=Ottla tests", _DAYS).both)
        if self._is_mutual:
            self._write_client(_DAYS)

    def _write_broker(self, node_id: int, days: float) -> None:
        if not self.is_encrypted:
            raise ClusterError(
                "only a cluster with security='ssl', 'mtls' or 'sasl_ssl' has certificates"
            )
        issued = self._issue(f"CN=broker-{node_id},O=Ottla tests", days)
        self._write(f"broker-{node_id}.pem", issued.both)

    def _write_client(self, days: float) -> None:
        assert self._authority is not None
        client = self._authority.issue(Wish(CLIENT, days=days))
        self._write("client.pem", client.both)
        self._write("client.crt", client.certificate)
        self._write("client.key", client.key)

    def _issue(self, subject: str, days: float) -> Issued:
        assert self._authority is not None
        return self._authority.issue(Wish(subject, LOCAL, is_both=True, days=days))

    def _path(self, name: str) -> str:
        return f"{self.directory}/{name}"

    def _write(self, name: str, content: str) -> None:
        with open(self._path(name), "w", encoding="ascii", opener=_open_for_owner) as file:
            file.write(content)

    def remove(self) -> None:
        """Delete the files."""
        remove_directory(self.directory)


def _open_for_owner(path: str, flags: int) -> int:
    """A broker refuses a key that other users of the machine can read."""
    return os.open(path, flags, 0o600)


def check_users(kind: str | None, users: Mapping[str, str], *, has_rules: bool) -> None:
    """Check users and rules. Raises ClusterError for invalid users, and for rules without users."""
    if kind is not None and PROTOCOLS[kind].startswith("SASL"):
        for name, password in users.items():
            problem = name_problem(name)
            if is_own(name):
                problem = f"the user {name!r} is the cluster's own: choose another name"
            elif not password:
                problem = f"the user {name!r} needs a password"
            if problem is not None:
                raise ClusterError(problem)
    elif users or has_rules:
        raise ClusterError("users and acls need security='sasl_ssl' or 'sasl_plaintext'")
