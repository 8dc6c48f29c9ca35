"""The login of a client, from Kafka's names of settings and librdkafka's.

A password is given by ``sasl.username`` and ``sasl.password`` or in ``sasl.jaas.config``; so is a
delegation token, by its id and its HMAC, with ``sasl.tokenauth`` or ``tokenauth="true"``. A bearer
token comes from a function (``oauth_cb``) or from an issuer
(``sasl.oauthbearer.token.endpoint.url``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.protocol.sasl.exchange import OAUTHBEARER, PLAIN
from ottla.protocol.sasl.jaas import JaasEntry, parse_jaas
from ottla.protocol.sasl.scram_record import SCRAM_MECHANISMS
from ottla.protocol.secret import Secret
from ottla.wire.sasl import PasswordSasl, TokenSasl

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ottla.client.settings.token_source import CallbackToken, IssuerToken
    from ottla.wire.sasl import ClientSasl

MECHANISMS = (PLAIN, *SCRAM_MECHANISMS, OAUTHBEARER)
CALLBACK = "oauth_cb"
SASL_NAMES = frozenset(
    {
        CALLBACK,
        "sasl.jaas.config",
        "sasl.mechanism",
        "sasl.mechanisms",
        "sasl.oauthbearer.client.id",
        "sasl.oauthbearer.client.secret",
        "sasl.oauthbearer.extensions",
        "sasl.oauthbearer.method",
        "sasl.oauthbearer.scope",
        "sasl.oauthbearer.token.endpoint.url",
        "sasl.password",
        "sasl.tokenauth",
        "sasl.username",
    }
)
# Parts of Java's and librdkafka's machinery.
SASL_WITHOUT_EFFECT = frozenset(
    {
        "sasl.client.callback.handler.class",
        "sasl.login.callback.handler.class",
        "sasl.login.class",
        "sasl.login.connect.timeout.ms",
        "sasl.login.read.timeout.ms",
        "sasl.login.refresh.buffer.seconds",
        "sasl.login.refresh.min.period.seconds",
        "sasl.login.refresh.window.factor",
        "sasl.login.refresh.window.jitter",
        "sasl.login.retry.backoff.max.ms",
        "sasl.login.retry.backoff.ms",
        "sasl.oauthbearer.config",
        "sasl.oauthbearer.scope.claim.name",
        "sasl.oauthbearer.sub.claim.name",
    }
)


def _callback_token() -> type[CallbackToken]:
    """Loaded by clients with tokens only: it brings the standard library's HTTP."""
    from ottla.client.settings.token_source import CallbackToken

    return CallbackToken


def _issuer_token() -> type[IssuerToken]:
    from ottla.client.settings.token_source import IssuerToken

    return IssuerToken


def sasl_from(texts: Mapping[str, str | None], callback: object = None) -> ClientSasl:
    """The login that these settings describe.

    Raises ValueError with a sentence that contains no secret."""
    mechanism = _mechanism(texts)
    entry = _jaas(texts, mechanism)
    if mechanism == OAUTHBEARER:
        return _bearer(texts, entry, callback)
    user = texts.get("sasl.username") or entry.text("username")
    password = Secret(texts.get("sasl.password") or "") or entry.secret("password")
    if not user or not password:
        raise ValueError(
            f"sasl.mechanism {mechanism} needs a user: set sasl.username and sasl.password (or "
            "both in sasl.jaas.config)"
        )
    is_token = _is_true(texts.get("sasl.tokenauth") or entry.text("tokenauth"))
    if is_token and mechanism not in SCRAM_MECHANISMS:
        raise ValueError(
            "a client logs in with a delegation token by SCRAM: set sasl.mechanism to one of "
            f"{', '.join(SCRAM_MECHANISMS)}, not {mechanism}"
        )
    return PasswordSasl(mechanism, user, password, is_token)


def _is_true(text: str) -> bool:
    return text.strip().lower() == "true"


def _mechanism(texts: Mapping[str, str | None]) -> str:
    named = {
        text.strip().upper()
        for name in ("sasl.mechanism", "sasl.mechanisms")
        if (text := texts.get(name))
    }
    if len(named) > 1:
        raise ValueError("sasl.mechanism and sasl.mechanisms name different mechanisms")
    mechanism = named.pop() if named else "GSSAPI"
    if mechanism == "GSSAPI":
        raise ValueError(
            "sasl.mechanism is GSSAPI (Kerberos, Kafka's default), which is not supported: set it "
            f"to one of {', '.join(MECHANISMS)}"
        )
    if mechanism not in MECHANISMS:
        raise ValueError(f"sasl.mechanism is one of {', '.join(MECHANISMS)}, not {mechanism!r}")
    return mechanism


def _jaas(texts: Mapping[str, str | None], mechanism: str) -> JaasEntry:
    text = texts.get("sasl.jaas.config")
    if not text:
        return JaasEntry((), {})
    try:
        entry = parse_jaas(text)
    except ValueError as error:
        raise ValueError(f"sasl.jaas.config is refused: {error}") from None
    if mechanism not in entry.mechanisms:
        raise ValueError(f"sasl.jaas.config has a login module that is not one of {mechanism}")
    return entry


def _bearer(texts: Mapping[str, str | None], entry: JaasEntry, callback: object) -> ClientSasl:
    extensions = dict(
        item.partition("=")[::2]
        for item in (texts.get("sasl.oauthbearer.extensions") or "").split(",")
        if item
    )
    if callable(callback):
        return TokenSasl(_callback_token()(callback), extensions)
    url = texts.get("sasl.oauthbearer.token.endpoint.url") or ""
    client_id = texts.get("sasl.oauthbearer.client.id") or entry.text("clientId")
    secret = Secret(texts.get("sasl.oauthbearer.client.secret") or "") or entry.secret(
        "clientSecret"
    )
    if not url or not client_id or not secret:
        raise ValueError(
            "OAUTHBEARER needs a source of tokens: a function as oauth_cb, or "
            "sasl.oauthbearer.token.endpoint.url with sasl.oauthbearer.client.id and "
            "sasl.oauthbearer.client.secret"
        )
    scope = texts.get("sasl.oauthbearer.scope") or entry.text("scope")
    return TokenSasl(_issuer_token()(url, client_id, secret, scope), extensions)
