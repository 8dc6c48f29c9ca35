"""The command line of ``ottla tokens``."""

from __future__ import annotations

import re

from ottla.client.cli.arguments import Parser, add_verbs, checked
from ottla.client.cli.parsers.acls import principal

_UNITS_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_DURATION = re.compile(r"([0-9]{1,12})(ms|s|m|h|d)")
_TIME = "such as 90s, 30m, 12h or 7d"


def parser() -> Parser:
    """The command line, as ``ottla tokens --help`` shows it."""
    made = Parser(
        prog="ottla tokens",
        description="Delegation tokens: clients log in with one in place of a password.",
        epilog="example: ottla tokens create --renewer User:scheduler --save worker.properties",
        allow_abbrev=False,
    )
    verb = add_verbs(made)
    _add_order(
        verb("create", "create a token", "--renewer User:scheduler --save worker.properties")
    )
    renew = verb("renew", "let a token live for longer, up to its maximum", "TOKEN-ID --for 1d")
    _add_token(renew)
    renew.add_argument(
        "--for",
        dest="period_ms",
        metavar="TIME",
        type=checked(duration),
        help=f"from now on, {_TIME} (default: the brokers' delegation.token.expiry.time.ms)",
    )
    expire = verb("expire", "let a token end, and its sessions with it", "TOKEN-ID")
    _add_token(expire)
    expire.add_argument(
        "--in",
        dest="period_ms",
        metavar="TIME",
        type=checked(duration),
        help=f"after that time, {_TIME} (default: at once)",
    )
    listed = verb("list", "show the tokens that you may see", "--owner User:alice")
    listed.add_argument(
        "--owner",
        metavar="User:NAME",
        type=checked(principal),
        action="append",
        default=[],
        help="of these owners or renewers only; may be given several times",
    )
    listed.add_argument("--show-hmac", action="store_true", help="also their secrets")
    return made


def _add_order(create: Parser) -> None:
    create.add_argument(
        "--renewer",
        metavar="User:NAME",
        type=checked(principal),
        action="append",
        default=[],
        help="may renew and expire it besides its owner; may be given several times",
    )
    create.add_argument(
        "--owner",
        metavar="User:NAME",
        type=checked(principal),
        help="whose token it is (default: yours); needs CreateTokens on that user",
    )
    create.add_argument(
        "--max-lifetime",
        metavar="TIME",
        type=checked(duration),
        help=f"its life however often it is renewed, {_TIME} (default: as the brokers allow)",
    )
    create.add_argument(
        "--save",
        metavar="FILE",
        help="write the settings of a client that logs in with it to a new file, which only you "
        "can read, and do not show its secret",
    )
    create.add_argument(
        "--mechanism",
        choices=("SCRAM-SHA-256", "SCRAM-SHA-512"),
        default="SCRAM-SHA-256",
        help="how that client logs in (default: SCRAM-SHA-256)",
    )


def _add_token(verb: Parser) -> None:
    verb.add_argument("token", metavar="TOKEN-ID", help="as 'ottla tokens list' shows it")


def duration(text: str) -> int:
    """Read a time with its unit as milliseconds. Raises ValueError."""
    match = _DURATION.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is not a time {_TIME}")
    return int(match[1]) * _UNITS_MS[match[2]]
