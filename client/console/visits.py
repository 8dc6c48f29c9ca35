"""Visits: the cookie of a browser, its form token, and the user whose rights it has."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.client.console.connections import ClusterAccess, ConsoleConnection

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ottla.client.process.environment import Environment

COOKIE = "ottla_console"
VISITS_MAX = 200
IDLE_MS_MAX = 8 * 3_600_000.0
CREDENTIALS = frozenset({"sasl.jaas.config", "sasl.password", "sasl.username"})
MECHANISMS = ("SCRAM-SHA-512", "SCRAM-SHA-256", "PLAIN")
_PROTOCOL = "security.protocol"
_MECHANISM = "sasl.mechanism"
_TOKEN_BYTES = 32


class Visit:
    """One browser: ``user`` and ``connection`` are None until it has logged in."""

    __slots__ = ("connection", "form_token", "last_ms", "name", "user")

    def __init__(self, name: str, form_token: str, last_ms: float) -> None:
        self.name = name
        self.form_token = form_token
        self.last_ms = last_ms
        self.user: str | None = None
        self.connection: ConsoleConnection | None = None


def needs_login(properties: Mapping[str, str]) -> bool:
    """Whether the settings say that clients log in, and do not say as which user."""
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
        self._access = access
        self.must_log_in = must_log_in or needs_login(access.properties)
        self._own = None if self.must_log_in else ConsoleConnection(access)
        self._visits: dict[str, Visit] = {}

    @property
    def environment(self) -> Environment:
        """Clock, network and random source."""
        return self._access.environment

    @property
    def mechanism(self) -> str:
        """The SASL mechanism that the log-in form offers first."""
        return self._access.properties.get(_MECHANISM, MECHANISMS[0]).upper()

    def find(self, name: str | None) -> Visit | None:
        """The visit of a cookie; None for an unknown or an old one."""
        visit = None if name is None else self._visits.get(name)
        if visit is None:
            return None
        now_ms = self.environment.clock.now_ms()
        if now_ms - visit.last_ms > IDLE_MS_MAX:
            self.end(visit)
            return None
        visit.last_ms = now_ms
        # The order of the dict is that of use.
        self._visits[visit.name] = self._visits.pop(visit.name)
        return visit

    def begin(self) -> Visit:
        """A new visit without a user. Ends the one that was idle longest if there are too many."""
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
        """The connection for a visitor's requests; None if the visitor has to log in first."""
        if visit is not None and visit.connection is not None:
            return visit.connection
        return self._own

    async def log_in(self, visit: Visit, user: str, password: str, mechanism: str) -> Visit:
        """Connect to the cluster as this user; the visit that takes the place of the old one.

        Raises ClientError if the cluster refuses the user."""
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
        # Raises before anything has changed.
        await connection.admin()
        # A new cookie, so that one that another site has planted gets no rights.
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
