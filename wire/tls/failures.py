"""Errors of TLS sessions, as one sentence that says what to do."""

from __future__ import annotations

import ssl

# X509_V_ERR_* of OpenSSL.
_NOT_YET_VALID, _EXPIRED = 9, 10
_UNTRUSTED = frozenset({2, 18, 19, 20, 21, 27})
_INVALID_PURPOSE = 26
_OTHER_NAME = frozenset({62, 63, 64})
_REVOKED = 23
# Of revocation lists: missing, expired, not valid yet, or not signed by the authority.
_NO_LIST, _LIST_EXPIRED, _LIST_UNUSABLE = 3, 12, frozenset({8, 11, 15, 16, 33, 35, 36})

# OpenSSL's reasons for bytes that are not TLS.
_NO_TLS = frozenset(
    {
        "WRONG_VERSION_NUMBER",
        "HTTP_REQUEST",
        "HTTPS_PROXY_REQUEST",
        "PACKET_LENGTH_TOO_LONG",
        "RECORD_LAYER_FAILURE",
        "UNKNOWN_PROTOCOL",
    }
)
_CERTIFICATE_WANTED = frozenset(
    {
        "TLSV13_ALERT_CERTIFICATE_REQUIRED",
        "PEER_DID_NOT_RETURN_A_CERTIFICATE",
        "SSL/TLS_ALERT_CERTIFICATE_REQUIRED",
    }
)
_CERTIFICATE_REFUSED = frozenset(
    {
        "TLSV1_ALERT_UNKNOWN_CA",
        "TLSV1_ALERT_ACCESS_DENIED",
        "SSLV3_ALERT_BAD_CERTIFICATE",
        "SSLV3_ALERT_CERTIFICATE_EXPIRED",
        "SSLV3_ALERT_CERTIFICATE_REVOKED",
        "SSLV3_ALERT_CERTIFICATE_UNKNOWN",
        "SSLV3_ALERT_UNSUPPORTED_CERTIFICATE",
        "SSL/TLS_ALERT_BAD_CERTIFICATE",
        "SSL/TLS_ALERT_CERTIFICATE_EXPIRED",
        "SSL/TLS_ALERT_CERTIFICATE_UNKNOWN",
    }
)
_NO_COMMON_VERSION = frozenset(
    {"TLSV1_ALERT_PROTOCOL_VERSION", "UNSUPPORTED_PROTOCOL", "VERSION_TOO_LOW"}
)
_NO_COMMON_CIPHER = frozenset({"NO_SHARED_CIPHER", "NO_CIPHERS_AVAILABLE"})

NOT_TLS = (
    "it does not speak TLS on this port: use the port of its SSL listener, or set "
    "security.protocol to PLAINTEXT"
)


class TlsError(OSError):
    """The TLS session cannot begin or go on. ``is_final``: the same attempt will fail again, until
    a setting or a certificate changes."""

    def __init__(self, reason: str, *, is_final: bool = True) -> None:
        super().__init__(reason)
        self.reason = reason
        self.is_final = is_final


def as_tls_error(error: ssl.SSLError, server_name: str | None) -> TlsError:
    """OpenSSL's error as a sentence. ``server_name``: where a client connects to; None on the
    server's side."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return TlsError(_about_certificate(error, server_name))
    reason = error.reason or ""
    if server_name is None:
        return TlsError(_on_server(error, reason))
    return _on_client(error, reason)


def _about_certificate(error: ssl.SSLCertVerificationError, server_name: str | None) -> str:
    whose = "the client's certificate" if server_name is None else "the broker's certificate"
    code, text = error.verify_code, error.verify_message
    if code == _EXPIRED:
        return f"{whose} has expired: it has to be renewed"
    if code == _NOT_YET_VALID:
        return f"{whose} is not valid yet: check the clocks of both machines"
    if code in _OTHER_NAME:
        return (
            f"{whose} is not for {server_name}: connect by a name or address that it lists, or "
            "have one issued with this one among its subject alternative names"
        )
    if code in _UNTRUSTED:
        return (
            f"{whose} is not signed by an authority that is trusted here ({text}): set "
            "ssl.truststore.location (or ssl.ca.location) to a PEM file with that authority"
        )
    if code == _REVOKED:
        return f"{whose} has been revoked: use another one"
    if code == _NO_LIST:
        return f"{whose} is refused: ssl.crl.location has no revocation list of its authority"
    if code == _LIST_EXPIRED:
        return (
            f"{whose} is refused: its authority's revocation list in ssl.crl.location has "
            "expired; put a new one there"
        )
    if code in _LIST_UNUSABLE:
        return (
            f"{whose} is refused: its authority's revocation list in ssl.crl.location cannot be "
            f"used ({text})"
        )
    if code == _INVALID_PURPOSE:
        return f"{whose} was issued for another purpose: its extended key usage does not fit"
    return f"{whose} cannot be verified: {text}"


def _on_client(error: ssl.SSLError, reason: str) -> TlsError:
    if reason in _NO_TLS:
        return TlsError(NOT_TLS)
    if reason in _CERTIFICATE_WANTED:
        return TlsError(
            "the broker wants a certificate of the client: set ssl.keystore.location (or "
            "ssl.certificate.location and ssl.key.location)"
        )
    if reason in _CERTIFICATE_REFUSED:
        return TlsError(
            f"the broker has refused the certificate of this client ({_words(reason)}): use one "
            "that an authority of its ssl.truststore has signed"
        )
    if reason in _NO_COMMON_VERSION:
        return TlsError(
            "the broker and this client have no TLS version in common: look at "
            "ssl.enabled.protocols on both sides"
        )
    if reason in _NO_COMMON_CIPHER or reason.endswith("ALERT_HANDSHAKE_FAILURE"):
        return TlsError(
            "the broker and this client cannot agree on a TLS session: either they have no cipher "
            "suite in common, or the broker wants a certificate of the client "
            "(ssl.keystore.location)"
        )
    return TlsError(f"TLS: {_words(reason) or error}", is_final=False)


def _on_server(error: ssl.SSLError, reason: str) -> str:
    if reason in _CERTIFICATE_WANTED:
        return "the client has shown no certificate, and ssl.client.auth requires one"
    if reason.endswith("ALERT_UNKNOWN_CA"):
        return "the client does not trust the authority of this broker's certificate"
    return f"TLS: {_words(reason) or error}"


def _words(reason: str) -> str:
    return reason.replace("_", " ").lower().replace("sslv3 ", "").replace("tlsv1 ", "")


# The first bytes of a connection, and the protocol that they identify.
_HTTP = (b"GET ", b"POST", b"HEAD", b"PUT ", b"DELE", b"OPTI", b"PATC", b"CONN", b"HTTP", b"PRI ")


def is_tls(first: bytes) -> bool:
    """Whether these can be the first bytes of a TLS record: a handshake or an alert."""
    return first[:1] in (b"\x16", b"\x15") and first[1:2] in (b"", b"\x03")


def spoken(first: bytes) -> str:
    """Name the protocol of a peer by its first four bytes; empty if it is unknown."""
    if first[:4] in _HTTP:
        return "HTTP"
    if len(first) >= 2 and is_tls(first):
        return "TLS"
    if first[:4] == b"SSH-":
        return "SSH"
    # The length of a request, which is far below 16 MiB at the beginning of a connection.
    return "Kafka's protocol without TLS" if first[:1] == b"\x00" else ""
