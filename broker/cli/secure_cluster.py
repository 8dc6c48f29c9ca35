"""The files of a secure cluster on several hosts: what each broker and its operator needs.

``ottla secure create`` writes them once and keeps what is there. Each broker has a directory of its
own, so that its host gets its secrets and no others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.cli.secure_files import (
    ADMIN,
    MECHANISM,
    close_to_others,
    jaas_of,
    keep_certificate,
    kept_authority,
    kept_passwords,
    kept_token_secret,
    write_file,
)
from ottla.broker.security.certificates import Wish
from ottla.protocol.named_tuples import NamedTuple
from ottla.protocol.properties import format_properties
from ottla.protocol.sasl.scram_record import SCRAM_MECHANISMS

if TYPE_CHECKING:
    from pathlib import Path

BROKER_USER = "broker-"
# The brokers share one user of ZooKeeper: each has to write what another made.
_STORE_USER = "zookeeper"


class BrokerPlace(NamedTuple):
    """A broker, and the names and addresses by which others reach it."""

    node_id: int
    names: tuple[str, ...]

    @property
    def user(self) -> str:
        """Its user, its common name and its directory."""
        return f"{BROKER_USER}{self.node_id}"


class ClusterPlan(NamedTuple):
    """What the files are for.

    Args:
        places: The brokers.
        bootstrap: Addresses that clients connect to.
        zookeeper: The brokers' ``zookeeper.connect``; None for a store of their own.
    """

    places: tuple[BrokerPlace, ...]
    bootstrap: str
    zookeeper: str | None = None


def write_cluster(directory: Path, plan: ClusterPlan) -> dict[str, str]:
    """Write what is missing; the passwords by users. Raises CryptographyMissing and OSError."""
    close_to_others(directory)
    users = [ADMIN, *(place.user for place in plan.places), _STORE_USER]
    passwords = kept_passwords(directory / "passwords.properties", users)
    certificate = directory / "ca.pem"
    authority = kept_authority(certificate, directory / "ca.key")
    token_secret = kept_token_secret(directory)
    for place in plan.places:
        own = directory / place.user
        close_to_others(own)
        write_file(own / "ca.pem", authority.certificate)
        wish = Wish(f"CN={place.user}", place.names, is_both=True)
        keep_certificate(authority, own / "broker.pem", wish)
        settings = broker_properties(own.absolute(), place, plan, passwords)
        write_file(own / "broker.properties", format_properties({**settings, **token_secret}))
    settings = client_properties(plan, passwords[ADMIN], authority.certificate)
    close_to_others(directory / "client")
    write_file(directory / "client" / "client.properties", format_properties(settings))
    return {user: password for user, password in passwords.items() if user != _STORE_USER}


def broker_properties(
    directory: Path, place: BrokerPlace, plan: ClusterPlan, passwords: dict[str, str]
) -> dict[str, str]:
    """The settings of a broker besides its listeners; they hold its password."""
    every = ";".join(f"User:{name}" for name in (ADMIN, *(one.user for one in plan.places)))
    settings = {
        "broker.id": str(place.node_id),
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(directory / "broker.pem"),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(directory / "ca.pem"),
        "sasl.enabled.mechanisms": ",".join(SCRAM_MECHANISMS),
        "sasl.mechanism.inter.broker.protocol": MECHANISM,
        "sasl.jaas.config": jaas_of(place.user, passwords[place.user]),
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": every,
        "ottla.broker.principals": f"User:{BROKER_USER}{{id}}",
    }
    return {**settings, **store_properties(plan, passwords)}


def store_properties(plan: ClusterPlan, passwords: dict[str, str]) -> dict[str, str]:
    """How brokers, and the maker of the first users, log in to ZooKeeper."""
    if plan.zookeeper is None:
        return {}
    return {
        "zookeeper.connect": plan.zookeeper,
        "zookeeper.set.acl": "true",
        "ottla.zookeeper.digest": f"{_STORE_USER}:{passwords[_STORE_USER]}",
    }


def client_properties(plan: ClusterPlan, password: str, authority: str) -> dict[str, str]:
    """The settings of a client that logs in as ``admin``. They hold the authority, too, so that
    the file can be used wherever it is copied to."""
    return {
        "bootstrap.servers": plan.bootstrap,
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": MECHANISM,
        "sasl.jaas.config": jaas_of(ADMIN, password),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": authority,
    }
