"""Visits: a browser's cookie, its form token, and the user it acts as."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ottla.client.console.attempts import LoginAttempts
from ottla.client.console.connections import ClusterAccess, ConsoleConnection
from ottla.client.console.recordings import RecordingPlaces
from ottla.client.console.views.failures import TOO_MANY, Refused
from ottla.protocol.named_tuples import NamedTuple
from ottla.wire.errors import AuthenticationFailed, ClientError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ottla.client.process.environment import Environment

COOKIE = "ottla_console"
VISITS_MAX = 200
VISITS_OF_USER_MAX = 10
IDLE_MS_MAX = 8 * 3_600_000.0
VISIT_MS_MAX = 24 * 3_600_000.0
# Each holds a connection until the broker has checked the password.
LOGINS_AT_ONCE = 8
CREDENTIALS = frozenset({"sasl.jaas.config", "sasl.password", "sasl.username"})
MECHANISMS = ("SCRAM-SHA-512", "SCRAM-SHA-256", "PLAIN")
_PROTOCOL = "security.protocol"
_MECHANISM = "sasl.mechanism"
_TOKEN_BYTES = 32


class Visit:
    """One browser: ``user`` and ``connection`` are None until it has logged in."""

    __slots__ = ("begin_ms", "connection", "form_token", "last_ms", "name", "user")

    def __init__(self, name: str, form_token: str, begin_ms: float) -> None:
        self.name = name
        self.form_token = form_token
        self.begin_ms = self.last_ms = begin_ms
        self.user: str | None = None
        self.connection: ConsoleConnection | None = None


class TypedLogin(NamedTuple):
    """A visitor's input in the log-in form, and the sender's address."""

    user: str
    password: str
    mechanism: str
    host: str


def _is_over(visit: Visit, now_ms: float) -> bool:
    return now_ms - visit.last_ms > IDLE_MS_MAX or now_ms - visit.begin_ms > VISIT_MS_MAX


def needs_login(properties: Mapping[str, str]) -> bool:
    """Whether the settings require a login and name no user."""
    if not properties.get(_PROTOCOL, "").upper().startswith("SASL"):
        return False
    if properties.get(_MECHANISM, "").upper() == "OAUTHBEARER":
        return False
    return not CREDENTIALS & properties.keys()


class Visits:
    """All visits, by the value of their cookie. Owned by one console.

    Args:
        access: The cluster, with the settings that were given to the command.
        must_log_in: Whether each visitor logs in, even if the settings name a user.
    """

    def __init__(self, access: ClusterAccess, *, must_log_in: bool) -> None:
        self._access = access._replace(places=RecordingPlaces())
        access = self._access
        self.must_log_in = must_log_in or needs_login(access.properties)
        self._own = None if self.must_log_in else ConsoleConnection(access)
        self._visits: dict[str, Visit] = {}
        self._attempts = LoginAttempts()
        self._logging_in = 0

    @property
    def environment(self) -> Environment:
        """Clock, network and random source."""
        return self._access.environment

    @property
    def mechanism(self) -> str:
        """The SASL mechanism that the log-in form offers first."""
        return self._access.properties.get(_MECHANISM, MECHANISMS[0]).upper()

    def find(self, name: str | None) -> Visit | None:
        """Return the visit of a cookie; None for an unknown or expired one."""
        visit = None if name is None else self._visits.get(name)
        if visit is None:
            return None
        now_ms = self.environment.clock.now_ms()
        if _is_over(visit, now_ms):
            self.end(visit)
            return None
        visit.last_ms = now_ms
        # The dict is ordered by last use.
        self._visits[visit.name] = self._visits.pop(visit.name)
        return visit

    def sweep(self) -> None:
        """End the expired visits with their connections and passwords; free old topic lists of the
        others."""
        now_ms = self.environment.clock.now_ms()
        for visit in [one for one in self._visits.values() if _is_over(one, now_ms)]:
            self.end(visit)
        connections = [self._own, *(one.connection for one in self._visits.values())]
        for connection in filter(None, connections):
            connection.drop_old_topics()

    def begin(self) -> Visit:
        """Create a visit without a user. If there are too many, it ends the one that was idle
        longest."""
        while len(self._visits) >= VISITS_MAX:
            anonymous = (one for one in self._visits.values() if one.connection is None)
            oldest = next(anonymous, None) or next(iter(self._visits.values()))
            self.end(oldest)
        random = self.environment.random
        visit = Visit(
            random.token(_TOKEN_BYTES).hex(),
            random.token(_TOKEN_BYTES).hex(),
            self.environment.clock.now_ms(),
        )
        self._visits[visit.name] = visit
        return visit

    def connection_of(self, visit: Visit | None) -> ConsoleConnection | None:
        """Return the connection for a visitor's requests; None if the visitor has to log in
        first."""
        if visit is not None and visit.connection is not None:
            return visit.connection
        return self._own

    async def log_in(self, visit: Visit, credentials: TypedLogin) -> Visit:
        """Connect to the cluster as this user; return the visit that replaces the old one.

        Raises ClientError if the cluster refuses the user, Refused after too many attempts."""
        user, password, mechanism, host = credentials
        wait_ms = self._attempts.begin(user, host, self.environment.clock.now_ms())
        if wait_ms > 0:
            wait_s = math.ceil(wait_ms / 1000)
            raise Refused(TOO_MANY, f"too many attempts: try again in {wait_s} s", wait_s)
        if self._logging_in >= LOGINS_AT_ONCE:
            raise Refused(TOO_MANY, "other visitors are logging in: try again in a second", 1)
        kept = {
            name: value
            for name, value in self._access.properties.items()
            if name not in CREDENTIALS
        }
        is_tls = kept.get(_PROTOCOL, "").upper().endswith("SSL")
        settings = {
            **kept,
            _PROTOCOL: "SASL_SSL" if is_tls else "SASL_PLAINTEXT",
            _MECHANISM: mechanism,
            "sasl.username": user,
            "sasl.password": password,
        }
        connection = ConsoleConnection(self._access._replace(properties=settings))
        self._logging_in += 1
        try:
            # Raises before any change.
            await connection.admin()
        except AuthenticationFailed:
            self._attempts.failed(user, host, self.environment.clock.now_ms())
            raise
        except ClientError:
            # The cluster has not checked the password.
            self._attempts.succeeded(user, host)
            raise
        finally:
            self._logging_in -= 1
        self._attempts.succeeded(user, host)
        of_user = [one for one in self._visits.values() if one.user == user]
        for oldest in of_user[: max(0, len(of_user) - VISITS_OF_USER_MAX + 1)]:
            self.end(oldest)
        # A new cookie, so that a cookie planted by another site gets no rights.
        self.end(visit)
        begun = self.begin()
        begun.user = user
        begun.connection = connection
        return begun

    def end(self, visit: Visit) -> None:
        """Log out and forget the visit."""
        self._visits.pop(visit.name, None)
        if visit.connection is not None:
            visit.connection.close()

    def close(self) -> None:
        """End all visits and close the console's own connection."""
        for visit in list(self._visits.values()):
            self.end(visit)
        if self._own is not None:
            self._own.close()
