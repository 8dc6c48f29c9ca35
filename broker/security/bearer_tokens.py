"""Validates OAUTHBEARER tokens: signature, issuer, audience, time, scope and user.

The keys come from a JWKS document, in a file or at an issuer's URL; both are set by the operator
only. A token cannot choose where a key is read from, and only asymmetric algorithms are accepted:
otherwise a client could use the public key as an HMAC secret.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import http.client
import json
import logging
import urllib.parse
import urllib.request
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from ottla.broker.security.authenticated import Authenticated
from ottla.broker.security.exchanges import ServerStep
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.named_tuples import NamedTuple
from ottla.protocol.sasl.exchange import OAUTHBEARER, failed
from ottla.protocol.sasl.oauthbearer import ACKNOWLEDGEMENT, parse_bearer, refusal
from ottla.protocol.version import install_advice

if TYPE_CHECKING:
    from types import ModuleType

    from ottla.coordinator.configs.sasl_settings import BearerSettings
    from ottla.protocol.ports import Clock, Offload
    from ottla.protocol.secret import Secret

logger = logging.getLogger("ottla.security")

ALGORITHMS = {
    "RSA": ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    "EC": ("ES256", "ES384", "ES512"),
}
DOCUMENT_BYTES_MAX = 1024 * 1024
FETCH_TIMEOUT_S = 5
# Minimum time between two fetches of keys that tokens with an unknown key id cause.
RETRY_MS = 10_000.0
_SCHEMES = ("file", "http", "https")
# authenticated() checks the times, by the broker's clock.
_SIGNATURE_ALONE = dict.fromkeys(
    (
        "verify_exp",
        "verify_nbf",
        "verify_iat",
        "verify_aud",
        "verify_iss",
        "verify_sub",
        "verify_jti",
    ),
    False,
)


def load_jwt() -> ModuleType:
    import jwt

    return jwt


class VerifyingKey(NamedTuple):
    """A public key and the algorithms that it is accepted for."""

    key: Any
    algorithms: tuple[str, ...]


class BearerTokens:
    """Token validation of one listener. It fetches keys at first use and refreshes them in time.

    Raises KafkaError if PyJWT is needed and missing."""

    def __init__(self, settings: BearerSettings, clock: Clock, offload: Offload) -> None:
        if settings.jwks_url and find_spec("jwt") is None:
            raise KafkaError(
                ErrorCode.INVALID_CONFIG,
                "OAUTHBEARER checks signatures with PyJWT, which is not installed: "
                + install_advice("security"),
            )
        self._settings = settings
        self._clock = clock
        self._offload = offload
        self._keys: dict[str, VerifyingKey] = {}
        self._fetched_ms: float | None = None
        self._tried_ms: float | None = None
        self._fetching = asyncio.Lock()

    async def check(self, token: Secret) -> Authenticated:
        """Return the user of the token. Raises KafkaError with the reason, which only the broker
        logs."""
        settings = self._settings
        if settings.jwks_url:
            key_id = _key_id(token)
            await self._fetch_if_due(key_id)
            claims = await self._offload.run(verified, self._keys, key_id, token)
        else:
            claims = unsecured(token)
        return authenticated(settings, claims, self._clock.wall_ms())

    async def _fetch_if_due(self, key_id: str) -> None:
        if key_id in self._keys and (self._fetching.locked() or not self._is_old()):
            return
        # Clients wait while the keys are fetched, because they treat a refusal as final.
        async with self._fetching:
            now_ms = self._clock.now_ms()
            is_early = self._tried_ms is not None and now_ms - self._tried_ms < RETRY_MS
            if is_early or (key_id in self._keys and not self._is_old()):
                return
            self._tried_ms = now_ms
            try:
                self._keys = await self._offload.run(fetched, self._settings.jwks_url)
            except (OSError, ValueError, http.client.HTTPException) as error:
                # Keys that were known before remain valid.
                logger.error("the keys at %s cannot be read: %s", self._settings.jwks_url, error)
                return
            self._fetched_ms = now_ms

    def _is_old(self) -> bool:
        fetched_ms = self._fetched_ms
        return fetched_ms is None or self._clock.now_ms() - fetched_ms >= self._settings.refresh_ms


class BearerExchange:
    """One login: a token is accepted, or refused and the client acknowledges the refusal."""

    # A user name from an unverified token can be forged.
    claimed_user = ""

    def __init__(self, tokens: BearerTokens) -> None:
        self._tokens = tokens
        self._refused = ""

    async def respond(self, token: bytes) -> ServerStep:
        if self._refused:
            detail = "" if token == ACKNOWLEDGEMENT else ", and no acknowledgement came"
            raise failed(self._refused + detail)
        login = parse_bearer(token)
        try:
            found = await self._tokens.check(login.token)
            if login.authorization_id and login.authorization_id != found.user:
                raise failed("OAUTHBEARER: the authorization id is not the token's user")
        except KafkaError as error:
            self._refused = error.message
            return ServerStep(refusal("invalid_token"))
        return ServerStep(b"", found)


def fetched(url: str) -> dict[str, VerifyingKey]:
    """Return the keys of a JWKS document by their ids. Blocks. Raises OSError, ValueError."""
    jwt = load_jwt()
    if urllib.parse.urlsplit(url).scheme not in _SCHEMES:
        raise ValueError("it has to be a file:, http: or https: URL")
    with urllib.request.urlopen(url, timeout=FETCH_TIMEOUT_S) as answer:
        document = json.loads(answer.read(DOCUMENT_BYTES_MAX))
    if not isinstance(document, dict) or not isinstance(document.get("keys"), list):
        raise ValueError("it is not a JWKS document")
    keys: dict[str, VerifyingKey] = {}
    for one in document["keys"]:
        try:
            # A document may contain keys of unsupported kinds; they are ignored.
            allowed = ALGORITHMS.get(one.get("kty"), ())
            if one.get("use", "sig") == "sig" and allowed:
                key = jwt.PyJWK(one).key
                allowed = (one["alg"],) if one.get("alg") in allowed else allowed
                keys[str(one.get("kid", ""))] = VerifyingKey(key, allowed)
        except (jwt.PyJWTError, AttributeError, ValueError) as error:
            logger.warning("a key at %s cannot be used: %s", url, error)
    return keys


def verified(keys: dict[str, VerifyingKey], key_id: str, token: Secret) -> dict[str, Any]:
    """Return the claims of a token after checking its signature, but not its time. Raises
    KafkaError."""
    jwt = load_jwt()
    key = keys.get(key_id)
    if key is None:
        raise failed(f"OAUTHBEARER: no key has the id {key_id[:64]!r}")
    try:
        found: dict[str, Any] = jwt.decode(
            token.reveal(),
            key=key.key,
            algorithms=list(key.algorithms),
            options=_SIGNATURE_ALONE,
        )
    except jwt.PyJWTError as error:
        raise failed(f"OAUTHBEARER: {error}") from None
    return found


def unsecured(token: Secret) -> dict[str, Any]:
    """Return the claims of an unsigned token, which any client can forge. Raises KafkaError."""
    parts = token.reveal().split(".")
    try:
        header, claims = (json.loads(_decoded(part)) for part in parts[:2])
    except ValueError:
        raise failed("OAUTHBEARER: the token is not a JWT") from None
    if len(parts) != 3 or parts[2] or not isinstance(claims, dict):
        raise failed("OAUTHBEARER: the token is not an unsecured JWT")
    if not isinstance(header, dict) or str(header.get("alg", "none")).lower() != "none":
        raise failed("OAUTHBEARER: the token claims an algorithm, and no key is configured")
    return claims


def authenticated(settings: BearerSettings, claims: dict[str, Any], wall_ms: int) -> Authenticated:
    """Return the user of these claims if they match the listener's settings. Raises KafkaError."""
    skew_s, now_s = settings.clock_skew_s, wall_ms / 1000
    expires_s, not_before_s = claims.get("exp"), claims.get("nbf", 0)
    if not isinstance(expires_s, int | float) or not isinstance(not_before_s, int | float):
        raise failed("OAUTHBEARER: the token has no time of expiry, or one that is no number")
    if expires_s + skew_s <= now_s:
        raise failed("OAUTHBEARER: the token has expired")
    if not_before_s - skew_s > now_s:
        raise failed("OAUTHBEARER: the token is not valid yet")
    if settings.issuer and claims.get("iss") != settings.issuer:
        raise failed("OAUTHBEARER: the token is of another issuer")
    if settings.audiences and not set(settings.audiences) & set(_listed(claims.get("aud"))):
        raise failed("OAUTHBEARER: the token is for another audience")
    scopes = set(_listed(claims.get(settings.scope_claim)))
    if not set(settings.required_scopes) <= scopes:
        raise failed("OAUTHBEARER: the token lacks a scope")
    user = claims.get(settings.subject_claim)
    if not isinstance(user, str) or not user.strip():
        raise failed(f"OAUTHBEARER: the token has no user in {settings.subject_claim}")
    return Authenticated(user, (OAUTHBEARER, user), int(expires_s * 1000))


def _listed(claim: object) -> list[str]:
    """Parse a claim that is one space-separated text or a list of texts."""
    if isinstance(claim, str):
        return claim.split()
    return [one for one in claim if isinstance(one, str)] if isinstance(claim, list) else []


def _key_id(token: Secret) -> str:
    try:
        header = json.loads(_decoded(token.reveal().partition(".")[0]))
    except ValueError:
        raise failed("OAUTHBEARER: the token is not a JWT") from None
    return str(header.get("kid", "")) if isinstance(header, dict) else ""


def _decoded(part: str) -> bytes:
    try:
        return base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))
    except binascii.Error as error:
        raise ValueError(str(error)) from None
