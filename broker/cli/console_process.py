"""``ottla start --console``: the console as a process beside the broker.

A process of its own: its work and its memory are not the broker's, and its end is not the broker's
end. It ends when its standard input does, so it also ends with a broker that was killed.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
from importlib.util import find_spec
from typing import TYPE_CHECKING

from ottla.broker.cli import secure
from ottla.coordinator.configs.broker_configs import ConfigError
from ottla.protocol.version import install_advice

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ottla.protocol.ports import Address

PACKAGES = ("jinja2", "starlette", "uvicorn")
END_S = 10.0
_OPEN_PROTOCOL = "PLAINTEXT://"
_EVERYWHERE = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}


def check_console(settings: Mapping[str, str], is_secure: bool) -> None:
    """Find out before the start whether the console can run. Raises ConfigError."""
    missing = [name for name in PACKAGES if find_spec(name) is None]
    if missing:
        raise ConfigError(
            f"--console needs {', '.join(missing)}, which is not installed: "
            f"{install_advice('console')}"
        )
    listeners = settings.get("listeners", _OPEN_PROTOCOL)
    if not is_secure and not listeners.strip().startswith(_OPEN_PROTOCOL):
        raise ConfigError(
            "--console connects to a PLAINTEXT listener, or to the one of --secure; for the "
            f"listeners {listeners} run 'ottla console' with --command-config"
        )


def console_command(settings: Mapping[str, str], address: Address, port: int) -> list[str]:
    """The arguments of ``ottla`` for the console of a broker at this address.

    ``settings``: those of a secure broker; empty for a broker without users."""
    reachable = address._replace(host=_EVERYWHERE.get(address.host, address.host))
    command = ["console", "-b", str(reachable), "--port", str(port), "--attached"]
    if settings:
        # The authority's certificate is among them; each visitor logs in all the same.
        path = secure.directory_of(settings) / "client.properties"
        command += ["--command-config", str(path), "--login"]
    return command


@contextlib.contextmanager
def run_console(settings: Mapping[str, str], address: Address, port: int) -> Iterator[None]:
    """Run the console while the body runs. What it writes goes to standard error."""
    command = [sys.executable, "-m", "ottla", *console_command(settings, address, port)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=sys.stderr.fileno()) as process:
        try:
            yield
        finally:
            assert process.stdin is not None
            with contextlib.suppress(OSError):
                process.stdin.close()
            try:
                process.wait(END_S)
            except subprocess.TimeoutExpired:
                process.kill()
