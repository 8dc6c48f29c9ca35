"""The requests that the broker serves before a connection is authenticated. Pure.

A connection starts at START. When its session has expired (KIP-368) it is at EXPIRED, where only a
new login is served. FAILED is final.
"""

from __future__ import annotations

from enum import Enum

from ottla.protocol.apis import ApiKey


class LoginState(Enum):
    """How far the login of a connection is."""

    START = "start"
    EXPIRED = "session expired"
    # The client has chosen a mechanism and exchanges tokens: in SaslAuthenticate requests, or,
    # after SaslHandshake version 0, without headers.
    TOKENS = "tokens"
    RAW_TOKENS = "raw tokens"
    FAILED = "failed"


class LoginStep(Enum):
    """What the broker does with one request."""

    TELL_VERSIONS = "tell versions"
    CHOOSE_MECHANISM = "choose a mechanism"
    TAKE_TOKEN = "take a token"
    # The request is one of SASL, so its response can carry the error.
    REFUSE = "refuse"
    CLOSE = "close"


_STEPS: dict[tuple[LoginState, int], LoginStep] = {
    (LoginState.START, ApiKey.API_VERSIONS): LoginStep.TELL_VERSIONS,
    (LoginState.START, ApiKey.SASL_HANDSHAKE): LoginStep.CHOOSE_MECHANISM,
    (LoginState.EXPIRED, ApiKey.SASL_HANDSHAKE): LoginStep.CHOOSE_MECHANISM,
    (LoginState.TOKENS, ApiKey.SASL_AUTHENTICATE): LoginStep.TAKE_TOKEN,
}
_OF_SASL = (ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE)
# Clients retry with a lower version if the broker does not support theirs.
VERSION_REQUESTS_MAX = 3
TOKENS_MAX = 4


def step_of(state: LoginState, api_key: int) -> LoginStep:
    """Return the step for a request of that API; APIs that are not in the table are not served."""
    found = _STEPS.get((state, api_key))
    if found is not None:
        return found
    if api_key in _OF_SASL and state is not LoginState.FAILED:
        return LoginStep.REFUSE
    return LoginStep.CLOSE
