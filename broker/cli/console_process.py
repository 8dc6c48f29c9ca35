"""``ottla start --console``: the console as a process beside the broker.

A process of its own: its work and its memory are not the broker's, and its end is not the broker's
end. It ends when its standard input does, so it also ends with a broker that was killed.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from ottla.broker.cli import secure
from ottla.coordinator.configs.broker_configs import ConfigError, parse_broker_config
from ottla.protocol.named_tuples import NamedTuple
from ottla.protocol.ports import Address
from ottla.protocol.properties import format_properties
from ottla.protocol.version import install_advice

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ottla.coordinator.metadata.image import Endpoint

PACKAGES = ("jinja2", "starlette", "uvicorn")
END_S = 10.0
_EVERYWHERE = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}
# Which listener the console uses: first those where visitors log in.
_PREFERRED = ("SASL_SSL", "SASL_PLAINTEXT", "SSL", "PLAINTEXT")
MECHANISMS = ("SCRAM-SHA-512", "SCRAM-SHA-256", "PLAIN")
_TRUST = (
    "ssl.truststore.type",
    "ssl.truststore.location",
    "ssl.truststore.password",
    "ssl.truststore.certificates",
    "ssl.endpoint.identification.algorithm",
)


class ConsoleListener(NamedTuple):
    """The listener that the console connects to.

    Attributes:
        endpoint: Where the broker listens.
        advertised: What the broker tells clients; certificates have its name.
        mechanism: The SASL mechanism that the log-in form offers first; None without logins.
        is_first: Whether it is the broker's first listener.
    """

    endpoint: Endpoint
    advertised: Endpoint
    mechanism: str | None
    is_first: bool


def check_console(settings: Mapping[str, str], is_secure: bool) -> None:
    """Find out before the start whether the console can run. Raises ConfigError."""
    missing = [name for name in PACKAGES if find_spec(name) is None]
    if missing:
        raise ConfigError(
            f"--console needs {', '.join(missing)}, which is not installed: "
            f"{install_advice('console')}"
        )
    if not is_secure:
        console_listener(settings)


def console_listener(settings: Mapping[str, str]) -> ConsoleListener:
    """The listener for the console. Raises ConfigError if it can use none."""
    config = parse_broker_config(settings).config
    reasons, found = [], []
    advertised = {one.listener: one for one in config.advertised_listeners}
    for index, endpoint in enumerate(config.listeners):
        name, protocol = endpoint.listener, endpoint.security_protocol
        enabled = config.sasl[name].mechanisms if name in config.sasl else ()
        usable = [one for one in MECHANISMS if one in enabled]
        if enabled and not usable:
            reasons.append(f"{name} takes none of {', '.join(MECHANISMS)}")
        elif protocol.endswith("SSL") and _text(settings, name, "ssl.client.auth") == "required":
            # With the broker's own certificate, visitors would have the rights of a broker.
            reasons.append(f"{name} requires a certificate of each client")
        elif index and not endpoint.port:
            reasons.append(f"{name} has the port 0")
        else:
            mechanism = usable[0] if usable else None
            found.append(ConsoleListener(endpoint, advertised[name], mechanism, index == 0))
    if not found:
        raise ConfigError(
            f"--console finds no listener that it can use: {'; '.join(reasons)}; run "
            "'ottla console' with --command-config instead"
        )
    return min(found, key=lambda one: _PREFERRED.index(one.endpoint.security_protocol))


def _text(settings: Mapping[str, str], listener: str, name: str) -> str:
    """A setting of a listener, or the one for all listeners; empty if there is neither."""
    own = f"listener.name.{listener.lower()}.{name}"
    return settings.get(own, settings.get(name, "")).strip()


def client_settings(settings: Mapping[str, str], listener: ConsoleListener) -> dict[str, str]:
    """The settings of clients of that listener; none for one without TLS and logins.

    What the broker trusts is what the console trusts; without a trust store it trusts the
    authorities of the system."""
    name, protocol = listener.endpoint.listener, listener.endpoint.security_protocol
    if protocol == "PLAINTEXT":
        return {}
    found = {"security.protocol": protocol}
    if listener.mechanism is not None:
        found["sasl.mechanism"] = listener.mechanism
    if protocol.endswith("SSL"):
        trust = {one: _text(settings, name, one) for one in _TRUST}
        found |= {one: text for one, text in trust.items() if text}
    return found


def bootstrap_of(listener: ConsoleListener, address: Address) -> Address:
    """Where the console connects to. ``address``: that of the broker's first listener."""
    bound = address if listener.is_first else Address(*listener.endpoint[1:3])
    if listener.endpoint.security_protocol.endswith("SSL") and listener.advertised.host:
        host = listener.advertised.host
        return Address(_EVERYWHERE.get(host, host), listener.advertised.port or bound.port)
    return bound._replace(host=_EVERYWHERE.get(bound.host, bound.host))


def console_command(address: Address, port: int, config: Path | None) -> list[str]:
    """The arguments of ``ottla`` for the console of a broker at this address.

    ``config``: a file with settings of clients, whose visitors log in; None for a broker that lets
    in every client."""
    command = ["console", "-b", str(address), "--port", str(port), "--attached"]
    if config is not None:
        command += ["--command-config", str(config)]
    return command


@contextlib.contextmanager
def run_console(
    settings: Mapping[str, str], address: Address, port: int, is_secure: bool
) -> Iterator[None]:
    """Run the console while the body runs. What it writes goes to standard error."""
    with contextlib.ExitStack() as stack:
        config, is_login = None, is_secure
        if is_secure:
            # The authority's certificate is among them; each visitor logs in all the same.
            config = secure.directory_of(settings) / "client.properties"
            reachable = address._replace(host=_EVERYWHERE.get(address.host, address.host))
        else:
            listener = console_listener(settings)
            reachable = bootstrap_of(listener, address)
            is_login = listener.mechanism is not None
            found = client_settings(settings, listener)
            if found:
                # For this user alone: the password of a trust store may be in it.
                directory = stack.enter_context(TemporaryDirectory(prefix="ottla-console-"))
                config = Path(directory) / "client.properties"
                config.write_text(format_properties(found))
        command = [sys.executable, "-m", "ottla", *console_command(reachable, port, config)]
        if is_login:
            command.append("--login")
        process = stack.enter_context(
            subprocess.Popen(command, stdin=subprocess.PIPE, stdout=sys.stderr.fileno())
        )
        try:
            yield
        finally:
            _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    assert process.stdin is not None
    with contextlib.suppress(OSError):
        process.stdin.close()
    try:
        process.wait(END_S)
    except subprocess.TimeoutExpired:
        process.kill()
