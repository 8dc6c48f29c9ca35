"""Where a client's tokens for OAUTHBEARER come from: a function of the application, or an issuer.

An issuer is asked over HTTP with the client's credentials (OAuth 2.0, RFC 6749 section 4.4), in a
thread, because the standard library's HTTP client blocks. A token is used until it is due.
"""

from __future__ import annotations

import asyncio
import base64
import inspect
import json
import urllib.error
import urllib.parse
import urllib.request
from typing import TYPE_CHECKING, Any

from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.secret import Secret
from ottla.wire.clock import RealClock

if TYPE_CHECKING:
    from collections.abc import Callable

TIMEOUT_S = 10
ANSWER_BYTES_MAX = 1024 * 1024
# A token is not used up to its last moment: the broker has to check it still.
USED_OF_LIFETIME = 0.8
SCHEMES = ("http", "https")


class CallbackToken:
    """The application's function: gives a token, or a pair of token and time of expiry as with
    confluent-kafka; it may be asynchronous."""

    def __init__(self, callback: Callable[..., Any]) -> None:
        self._callback = callback

    async def __call__(self) -> Secret:
        takes_config = bool(inspect.signature(self._callback).parameters)
        try:
            found = self._callback("") if takes_config else self._callback()
            if inspect.isawaitable(found):
                found = await found
        except Exception as error:
            raise failed(f"oauth_cb has failed: {error!r}") from error
        return Secret(str(found[0] if isinstance(found, tuple) else found))


class IssuerToken:
    """Client credentials. The token is kept until most of its lifetime is over."""

    def __init__(self, url: str, client_id: str, secret: Secret, scope: str = "") -> None:
        if urllib.parse.urlsplit(url).scheme not in SCHEMES:
            raise ValueError("sasl.oauthbearer.token.endpoint.url is an http: or https: URL")
        self._url = url
        self._client_id = client_id
        self._secret = secret
        self._scope = scope
        self._clock = RealClock()
        self._token = Secret("")
        self._due_ms = 0.0

    async def __call__(self) -> Secret:
        if not self._token or self._clock.now_ms() >= self._due_ms:
            answer = await asyncio.to_thread(self._ask)
            self._token = Secret(str(answer["access_token"]))
            lifetime_s = float(answer.get("expires_in", 0))
            self._due_ms = self._clock.now_ms() + lifetime_s * 1000 * USED_OF_LIFETIME
        return self._token

    def _ask(self) -> dict[str, Any]:
        """Raises KafkaError."""
        quoted = [
            urllib.parse.quote(text, safe="") for text in (self._client_id, self._secret.reveal())
        ]
        credentials = base64.b64encode(":".join(quoted).encode()).decode()
        form = {"grant_type": "client_credentials"}
        if self._scope:
            form["scope"] = self._scope
        request = urllib.request.Request(
            self._url,
            urllib.parse.urlencode(form).encode(),
            {"Authorization": f"Basic {credentials}", "Accept": "application/json"},
        )
        try:
            with urllib.request.urlopen(request, timeout=TIMEOUT_S) as answer:
                found = json.loads(answer.read(ANSWER_BYTES_MAX))
        except urllib.error.HTTPError as error:
            raise failed(f"the issuer of tokens at {self._url} answers {error.code}") from None
        except (OSError, ValueError) as error:
            raise failed(f"the issuer of tokens at {self._url} cannot be used: {error}") from None
        if not isinstance(found, dict) or not found.get("access_token"):
            raise failed(f"the issuer of tokens at {self._url} sends no access_token")
        return found


def failed(reason: str) -> KafkaError:
    """The error of a login for which there is no token."""
    return KafkaError(ErrorCode.SASL_AUTHENTICATION_FAILED, reason)
