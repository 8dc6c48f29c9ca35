"""TLS of the broker's listeners, and of its connections to other brokers.

The broker checks files and settings every few seconds. New connections use new certificates;
unusable ones are reported once, and the previous ones stay in use.
"""

from __future__ import annotations

import logging
import ssl
from typing import TYPE_CHECKING

from ottla.broker.security.principals import ANONYMOUS, BadRules, PrincipalRules
from ottla.broker.security.x509 import BadCertificate, CertificateFacts, facts_of
from ottla.wire.security import PLAINTEXT, ConnectionSecurity
from ottla.wire.tls.client_tls import read_file, readers
from ottla.wire.tls.contexts import TlsMaterial, client_context, server_context
from ottla.wire.tls.failures import TlsError
from ottla.wire.tls.session import TlsSession
from ottla.wire.tls.settings import SETTINGS, BadTls, TlsSettings, tls_settings
from ottla.wire.tls.stores import material_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ottla.coordinator.configs.broker_configs import BrokerConfig
    from ottla.coordinator.configs.configs import ConfigSources
    from ottla.protocol.ports import Clock

logger = logging.getLogger("ottla.security")

LOOK_MS = 5_000.0
DAY_MS = 24 * 3_600_000
# The broker warns this many days before a certificate expires.
WARN_DAYS = (30, 7, 1)
RULES = "ssl.principal.mapping.rules"
KEYS_MAY_BE_READ = "ottla.allow.readable.keys"


def listener_texts(sources: ConfigSources, listener: str) -> dict[str, str | None]:
    """Return the ssl.* settings of a listener; its own ones override the common ones."""
    prefix = f"listener.name.{listener.lower()}."
    found: dict[str, str | None] = {}
    for name in (*SETTINGS, RULES):
        own = sources.text(prefix + name)
        found[name] = sources.text(name) if own is None else own
    return found


def check_key_file(path: str | None, *, may_be_read: bool) -> None:
    """Refuse a private key that other users of this machine can read, or only warn of it.

    Raises BadTls."""
    others = readers(path) if path else ""
    if not others:
        return
    sentence = (
        f"{path} contains a private key, and {others} can use it: run chmod 600 {path}, or give "
        "it to root and to a group of the broker with the mode 0440"
    )
    if not may_be_read:
        raise BadTls(f"{sentence}, or set {KEYS_MAY_BE_READ}=true")
    logger.warning("%s", sentence)


class ListenerTls:
    """TLS of one listener. ``load`` comes first."""

    def __init__(
        self,
        listener: str,
        texts: Callable[[], Mapping[str, str | None]],
        clock: Clock,
        *,
        connects: bool,
        keys_may_be_read: bool = False,
    ) -> None:
        self.listener = listener
        self._texts = texts
        self._clock = clock
        self._connects = connects
        self._keys_may_be_read = keys_may_be_read
        self._rules = PrincipalRules()
        self._server: ssl.SSLContext | None = None
        self._client: ssl.SSLContext | None = None
        # The content read last, usable or not.
        self._seen: object = None
        self._facts: CertificateFacts | None = None
        self._told_days = max(WARN_DAYS) + 1

    def load(self) -> None:
        """Read settings and files. Raises BadTls."""
        try:
            self._look()
        except (BadTls, BadRules, BadCertificate) as error:
            raise BadTls(f"the listener {self.listener} cannot use TLS: {error}") from error
        self._warn_of_end()

    def refresh(self) -> None:
        """Look again; what cannot be used changes nothing."""
        try:
            if self._look():
                logger.info("the listener %s has a new certificate", self.listener)
                self._told_days = max(WARN_DAYS) + 1
        except (BadTls, BadRules, BadCertificate) as error:
            logger.error(
                "the listener %s keeps its certificate, the new one cannot be used: %s",
                self.listener,
                error,
            )
        self._warn_of_end()

    def session(self) -> TlsSession:
        """A new session with a client."""
        assert self._server is not None, "loaded at the start"
        return TlsSession(self._server, is_server=True)

    def client_session(self, host: str) -> TlsSession:
        """A new session with another broker."""
        assert self._client is not None, "loaded at the start"
        return TlsSession(self._client, is_server=False, server_name=host)

    def principal_of(self, session: TlsSession) -> str:
        """Return the principal of the client's certificate. Raises TlsError."""
        certificate = session.peer_certificate
        if certificate is None:
            return ANONYMOUS
        try:
            subject = facts_of(certificate).subject
        except BadCertificate as error:
            raise TlsError(str(error)) from error
        principal = self._rules.principal_of(subject)
        if principal is None:
            raise TlsError(f"no rule of {RULES} applies to the certificate of {subject!r}")
        return principal

    def _look(self) -> bool:
        """Whether files or settings have changed. Raises BadTls, BadRules or BadCertificate."""
        texts = self._texts()
        settings = tls_settings(texts)
        rules = texts.get(RULES) or ""
        contents = tuple(_content(path) for path in settings.paths)
        by_path = dict(zip(settings.paths, contents, strict=True))
        keys = [path for path in settings.own.paths if _has_key(by_path[path])]
        seen = (settings, rules, contents, [readers(path) for path in keys])
        if seen == self._seen:
            return False
        self._seen = seen
        for path in keys:
            check_key_file(path, may_be_read=self._keys_may_be_read)
        self._take(settings, PrincipalRules(rules), material_of(settings, _reader(by_path)))
        return True

    def _take(self, settings: TlsSettings, rules: PrincipalRules, material: TlsMaterial) -> None:
        server = server_context(settings, material)
        client = client_context(settings, material) if self._connects else None
        facts = _own_facts(material)
        self._server, self._client, self._rules, self._facts = server, client, rules, facts

    def _warn_of_end(self) -> None:
        if self._facts is None:
            return
        left_ms = self._facts.last_ms - self._clock.wall_ms()
        due = [days for days in WARN_DAYS if left_ms <= days * DAY_MS and days < self._told_days]
        if not due:
            return
        self._told_days = min(due)
        logger.warning(
            "the certificate of the listener %s (%s) %s: renew it; the broker reloads it "
            "automatically",
            self.listener,
            self._facts.subject,
            "has expired" if left_ms <= 0 else f"expires in {left_ms / DAY_MS:.1f} days",
        )


def _content(path: str) -> bytes | str:
    """Return the file's content, or why it cannot be read."""
    try:
        return read_file(path)
    except OSError as error:
        return (error.strerror or str(error)).lower()


def _has_key(content: bytes | str) -> bool:
    """Whether it is a PEM file with a private key, or no PEM file, as a PKCS12 store is."""
    return isinstance(content, bytes) and (
        b"PRIVATE KEY-----" in content or b"-----BEGIN " not in content
    )


def _reader(contents: Mapping[str, bytes | str]) -> Callable[[str], bytes]:
    def read(path: str) -> bytes:
        found = contents[path]
        if isinstance(found, str):
            raise OSError(found)
        return found

    return read


def _own_facts(material: TlsMaterial) -> CertificateFacts | None:
    """Return the facts of the broker's own certificate, the first one of the chain."""
    if material.own is None:
        return None
    begin, end = "-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----"
    text = material.own.decode("latin-1")
    start = text.index(begin)
    return facts_of(ssl.PEM_cert_to_DER_cert(text[start : text.index(end, start) + len(end)]))


class BrokerTls:
    """TLS of all listeners of a broker; ``security`` is for its outgoing connections."""

    def __init__(
        self, config: BrokerConfig, sources: Callable[[], ConfigSources], clock: Clock
    ) -> None:
        self._clock = clock
        inner = config.inter_broker_listener_name
        self._listeners: dict[str, ListenerTls] = {}
        for endpoint in config.listeners:
            if endpoint.security_protocol.endswith("SSL"):
                self._listeners[endpoint.listener] = ListenerTls(
                    endpoint.listener,
                    lambda name=endpoint.listener: listener_texts(sources(), name),  # type: ignore[misc]
                    clock,
                    connects=endpoint.listener == inner,
                    keys_may_be_read=config.allow_readable_keys,
                )
        among = self._listeners.get(inner)
        self.security = PLAINTEXT if among is None else ConnectionSecurity(tls=_Among(among))

    def of(self, listener: str) -> ListenerTls | None:
        """TLS of that listener; None for plaintext."""
        return self._listeners.get(listener)

    def load(self) -> None:
        """Read all files. Raises BadTls."""
        for one in self._listeners.values():
            one.load()

    async def run(self) -> None:
        """Check for new files and settings until cancelled."""
        while self._listeners:
            await self._clock.sleep(LOOK_MS)
            self.refresh()

    def refresh(self) -> None:
        """Check again; unusable files or settings change nothing."""
        for one in self._listeners.values():
            one.refresh()


class _Among:
    """The sessions with other brokers."""

    def __init__(self, tls: ListenerTls) -> None:
        self._tls = tls

    def session(self, host: str) -> TlsSession:
        return self._tls.client_session(host)
