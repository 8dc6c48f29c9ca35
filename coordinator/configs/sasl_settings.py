"""The SASL settings of one listener of a broker, out of Kafka's texts.

The most specific text counts: ``listener.name.<listener>.<mechanism>.<setting>``, then
``listener.name.<listener>.<setting>``, then ``<setting>``. What a broker could not honour is
refused with a sentence, because it would otherwise come up with a listener that admits no client,
or admits too many.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.coordinator.configs.broker_configs_table import BROKER_CONFIGS
from ottla.coordinator.configs.definitions import BadValue
from ottla.protocol.data_classes import dataclass
from ottla.protocol.sasl.exchange import OAUTHBEARER, PLAIN
from ottla.protocol.sasl.jaas import parse_jaas
from ottla.protocol.sasl.scram_record import SCRAM_MECHANISMS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ottla.protocol.sasl.jaas import JaasEntry

MECHANISMS = (PLAIN, *SCRAM_MECHANISMS, OAUTHBEARER)
_PREFIX = "listener.name."
_JAAS = "sasl.jaas.config"
_ENABLED = "sasl.enabled.mechanisms"


@dataclass(frozen=True, slots=True)
class BearerSettings:
    """How tokens of OAUTHBEARER are checked. Times in milliseconds, the skew in seconds."""

    jwks_url: str
    issuer: str
    audiences: tuple[str, ...]
    required_scopes: tuple[str, ...]
    scope_claim: str
    subject_claim: str
    clock_skew_s: int
    refresh_ms: int
    allows_unsecured: bool


@dataclass(frozen=True, slots=True)
class SaslSettings:
    """One listener's. ``jaas`` has the entries by mechanism, where one is set; ``reauth_ms`` is 0
    for sessions without an end."""

    listener: str
    mechanisms: tuple[str, ...]
    jaas: Mapping[str, JaasEntry]
    token_bytes_max: int
    reauth_ms: Mapping[str, int]
    failure_delay_ms: int
    bearer: BearerSettings


class _Texts:
    """The settings as one listener sees them."""

    def __init__(self, static: Mapping[str, str], listener: str) -> None:
        self._static = static
        self._listener = listener.lower()

    def text(self, name: str, mechanism: str = "") -> str:
        """The text that counts, empty if there is none."""
        names = [f"{_PREFIX}{self._listener}.{name}", name]
        if mechanism:
            names.insert(0, f"{_PREFIX}{self._listener}.{mechanism.lower()}.{name}")
        for one in names:
            if one in self._static:
                return self._static[one].strip()
        return BROKER_CONFIGS[name].default or ""

    def number(self, name: str, mechanism: str = "") -> int:
        return int(self.text(name, mechanism))

    def items(self, name: str) -> tuple[str, ...]:
        return tuple(item.strip() for item in self.text(name).split(",") if item.strip())


def sasl_settings(static: Mapping[str, str], listener: str) -> SaslSettings:
    """Raises BadValue with a whole sentence."""
    texts = _Texts(static, listener)
    mechanisms = tuple(dict.fromkeys(texts.items(_ENABLED)))
    _check_mechanisms(mechanisms, listener)
    settings = SaslSettings(
        listener=listener,
        mechanisms=mechanisms,
        jaas=_jaas_by_mechanism(texts, mechanisms, listener),
        token_bytes_max=texts.number("sasl.server.max.receive.size"),
        reauth_ms={one: texts.number("connections.max.reauth.ms", one) for one in mechanisms},
        failure_delay_ms=texts.number("connection.failed.authentication.delay.ms"),
        bearer=_bearer_settings(texts),
    )
    if OAUTHBEARER in mechanisms:
        _check_bearer(settings.bearer, listener)
    return settings


def check_inter_broker(settings: SaslSettings, mechanism: str) -> None:
    """Refuse a listener over which the brokers could not log in to each other.

    Raises BadValue with a whole sentence."""
    name = "sasl.mechanism.inter.broker.protocol"
    listener = settings.listener
    if mechanism not in settings.mechanisms:
        raise BadValue(
            f"{name} is {mechanism}, which {_ENABLED} of the listener {listener} does not enable: "
            f"set it to one of {', '.join(settings.mechanisms)}"
        )
    if mechanism == OAUTHBEARER:
        raise BadValue(
            f"{name} is OAUTHBEARER, but brokers log in to each other with a password only: set it "
            "to a SCRAM mechanism or PLAIN"
        )
    entry = settings.jaas.get(mechanism)
    if entry is None or not entry.text("username"):
        raise BadValue(
            f"brokers log in to each other over the listener {listener}: set {_PREFIX}"
            f"{listener.lower()}.{mechanism.lower()}.{_JAAS} with a username and a password"
        )


def _check_mechanisms(mechanisms: tuple[str, ...], listener: str) -> None:
    allowed = ", ".join(MECHANISMS)
    if not mechanisms:
        raise BadValue(f"{_ENABLED} names no mechanism for the listener {listener}: use {allowed}")
    for mechanism in mechanisms:
        if mechanism == "GSSAPI":
            raise BadValue(
                f"{_ENABLED} of the listener {listener} is GSSAPI (Kerberos, Kafka's default), "
                f"which is not supported: set it to some of {allowed}"
            )
        if mechanism not in MECHANISMS:
            raise BadValue(
                f"{_ENABLED} of the listener {listener} has {mechanism!r}, which is none of "
                + allowed
            )


def _jaas_by_mechanism(
    texts: _Texts, mechanisms: tuple[str, ...], listener: str
) -> dict[str, JaasEntry]:
    found: dict[str, JaasEntry] = {}
    for mechanism in mechanisms:
        text = texts.text(_JAAS, mechanism)
        if not text:
            continue
        try:
            entry = parse_jaas(text)
        except ValueError as error:
            raise BadValue(f"{_JAAS} of the listener {listener} is refused: {error}") from None
        if mechanism in entry.mechanisms:
            found[mechanism] = entry
    return found


def _bearer_settings(texts: _Texts) -> BearerSettings:
    return BearerSettings(
        jwks_url=texts.text("sasl.oauthbearer.jwks.endpoint.url"),
        issuer=texts.text("sasl.oauthbearer.expected.issuer"),
        audiences=texts.items("sasl.oauthbearer.expected.audience"),
        required_scopes=texts.items("ottla.oauthbearer.required.scope"),
        scope_claim=texts.text("sasl.oauthbearer.scope.claim.name"),
        subject_claim=texts.text("sasl.oauthbearer.sub.claim.name"),
        clock_skew_s=texts.number("sasl.oauthbearer.clock.skew.seconds"),
        refresh_ms=texts.number("sasl.oauthbearer.jwks.endpoint.refresh.ms"),
        allows_unsecured=texts.text("ottla.oauthbearer.allow.unsecured.tokens").lower() == "true",
    )


def _check_bearer(bearer: BearerSettings, listener: str) -> None:
    if not bearer.jwks_url and not bearer.allows_unsecured:
        raise BadValue(
            f"the listener {listener} enables OAUTHBEARER, but nothing says which keys sign its "
            "tokens: set sasl.oauthbearer.jwks.endpoint.url to a file:, http: or https: URL (or, "
            "for tests, ottla.oauthbearer.allow.unsecured.tokens=true)"
        )
