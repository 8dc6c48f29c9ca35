"""Encryption and login of a client, from Kafka's names and librdkafka's.

``security_from`` turns properties such as ``security.protocol`` and ``ssl.ca.location`` into what a
connection needs. A keyword takes the same properties:
``Producer("host:9093", security={"security.protocol": "SSL", "ssl.ca.location": "ca.pem"})``.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

from ottla.client.settings.sasl import CALLBACK, SASL_NAMES, SASL_WITHOUT_EFFECT, sasl_from
from ottla.client.settings.spelling import suggestion
from ottla.wire.security import ConnectionSecurity
from ottla.wire.tls.client_tls import FileTls
from ottla.wire.tls.settings import tls_settings

if TYPE_CHECKING:
    from collections.abc import Mapping

PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
WARNING_DEPTH = 5

TLS_NAMES = frozenset(
    {
        "enable.ssl.certificate.verification",
        "ssl.ca.location",
        "ssl.ca.pem",
        "ssl.certificate.location",
        "ssl.certificate.pem",
        "ssl.cipher.suites",
        "ssl.crl.location",
        "ssl.enabled.protocols",
        "ssl.endpoint.identification.algorithm",
        "ssl.key.location",
        "ssl.key.password",
        "ssl.key.pem",
        "ssl.keystore.certificate.chain",
        "ssl.keystore.key",
        "ssl.keystore.location",
        "ssl.keystore.password",
        "ssl.keystore.type",
        "ssl.truststore.certificates",
        "ssl.truststore.location",
        "ssl.truststore.password",
        "ssl.truststore.type",
    }
)
# Parts of Java's and librdkafka's machinery.
WITHOUT_EFFECT = frozenset(
    {
        "ssl.curves.list",
        "ssl.keymanager.algorithm",
        "ssl.protocol",
        "ssl.provider",
        "ssl.secure.random.implementation",
        "ssl.sigalgs.list",
        "ssl.trustmanager.algorithm",
    }
)
# An application that sets these relies on a check or a key store that would be missing.
UNSUPPORTED = frozenset(
    {
        "ssl.engine.factory.class",
        "ssl.engine.id",
        "ssl.engine.location",
        "ssl.providers",
    }
)


def is_security(name: str) -> bool:
    """Whether a property of that name belongs to ``security_from``."""
    return name.startswith(("ssl.", "sasl.", "security.", "enable.ssl.")) or name == CALLBACK


def security_from(properties: Mapping[str, object]) -> ConnectionSecurity:
    """What these properties ask for; the files that they name are read when a connection is made.

    Raises ValueError for an unknown name and for values that contradict each other."""
    callback = properties.get(CALLBACK)
    texts = {name: _text(value) for name, value in properties.items() if name != CALLBACK}
    protocol = (texts.pop("security.protocol", None) or PROTOCOLS[0]).strip().upper()
    if protocol not in PROTOCOLS:
        raise ValueError(
            f"security.protocol {protocol!r} is not supported: {' and '.join(PROTOCOLS)} are"
        )
    for name in texts:
        _check_name(name)
    of_sasl = {name: text for name, text in texts.items() if name in SASL_NAMES}
    of_tls = {name: text for name, text in texts.items() if name not in SASL_NAMES}
    unused = {} if protocol.startswith("SASL") else of_sasl
    if not protocol.endswith("SSL"):
        unused = {**unused, **of_tls}
    for name in sorted(unused):
        _warn(f"{name} has no effect: security.protocol is {protocol}")
    return ConnectionSecurity(
        tls=FileTls(tls_settings(of_tls)) if protocol.endswith("SSL") else None,
        sasl=sasl_from(of_sasl, callback) if protocol.startswith("SASL") else None,
    )


def _text(value: object) -> str | None:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | tuple):
        return ",".join(map(str, value))
    return None if value is None else str(value)


def _check_name(name: str) -> None:
    if name in UNSUPPORTED:
        raise ValueError(f"{name} is not supported")
    if name in WITHOUT_EFFECT:
        _warn(f"{name} has no effect: OpenSSL's own choice counts")
    elif name in SASL_WITHOUT_EFFECT or name.startswith("sasl.kerberos."):
        _warn(f"{name} has no effect")
    elif name not in TLS_NAMES | SASL_NAMES:
        raise ValueError(f"no setting is called {name!r}{suggestion(name, TLS_NAMES | SASL_NAMES)}")


def _warn(text: str) -> None:
    warnings.warn(text, UserWarning, WARNING_DEPTH)
