"""Protects a classic client's session with ZooKeeper, by the brokers' settings. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.client.classic.reading_settings import keys, switch, text
from ottla.coordinator.store.zookeeper_tls import Tls
from ottla.protocol.named_tuples import NamedTuple
from ottla.protocol.secret import Secret

if TYPE_CHECKING:
    from ottla.client.classic.reading_settings import Settings


def _secret(name: str, value: object) -> Secret:
    return Secret(text(name, value))


def _digest(name: str, value: object) -> Secret:
    user, colon, password = text(name, value).partition(":")
    if not (user and colon and password):
        raise ValueError(f"{name} has the form user:password")
    return Secret(text(name, value))


def _algorithm(name: str, value: object) -> str:
    found = str(value).strip().lower()
    if found not in ("", "https"):
        raise ValueError(f"{name} is HTTPS, or empty for no check, not {value!r}")
    return found


STORE_KEYS = {
    **keys("store_digest", _digest, "ottla.zookeeper.digest"),
    **keys("store_owns", switch, "zookeeper.set.acl"),
    **keys("store_tls", switch, "zookeeper.ssl.client.enable"),
    **keys("store_trusted", text, "zookeeper.ssl.truststore.location"),
    **keys("store_own", text, "zookeeper.ssl.keystore.location"),
    **keys("store_password", _secret, "zookeeper.ssl.keystore.password"),
    **keys("store_name", _algorithm, "zookeeper.ssl.endpoint.identification.algorithm"),
}


class StoreLogin(NamedTuple):
    """How a session with ZooKeeper is protected.

    Args:
        digest: "user:password" of ZooKeeper's digest scheme; None for no login.
        owns: whether only that user may use the znodes that the client creates.
        tls: the files of TLS; None for no encryption.
    """

    digest: Secret | None = None
    owns: bool = False
    tls: Tls | None = None

    def __repr__(self) -> str:
        return "StoreLogin(...)"


NO_LOGIN = StoreLogin()


def take_login(found: Settings) -> StoreLogin:
    """Take the fields of ``STORE_KEYS`` out of the values. Raises ValueError if they contradict
    each other."""
    taken = {name: found.pop(name) for name in [*found] if name.startswith("store_")}
    digest, owns = taken.pop("store_digest", None), taken.pop("store_owns", False)
    if owns and digest is None:
        raise ValueError("zookeeper.set.acl needs ottla.zookeeper.digest: the owner of znodes")
    tls = None
    if taken.pop("store_tls", False):
        password = taken.get("store_password")
        tls = Tls(
            taken.get("store_trusted"),
            taken.get("store_own"),
            None if password is None else password.reveal(),
            bool(taken.get("store_name", "https")),
        )
    elif taken:
        raise ValueError("settings of zookeeper.ssl need zookeeper.ssl.client.enable=true")
    return StoreLogin(digest, owns, tls)
