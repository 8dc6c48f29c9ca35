"""``ottla tokens``: delegation tokens, which clients log in with in place of a password.

Tokens are named by their ids. The secret of a token is shown only when it is asked for, or created
without ``--save``; it never stands on the command line.
"""

from __future__ import annotations

import os
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from ottla.client.cli.admin_verbs import run_admin_verb
from ottla.client.cli.connection import SERVERS, given
from ottla.client.cli.output import json_document, table, write
from ottla.client.cli.run import CommandError, UsageError
from ottla.protocol.properties import format_properties

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping, Sequence

    from ottla.client.admin import Admin
    from ottla.client.administration.tokens import DelegationToken

_HEADINGS = ("TOKEN ID", "OWNER", "REQUESTER", "RENEWERS", "ISSUED", "EXPIRES", "MAXIMUM")
_OWNER_ONLY = 0o600


def main(arguments: argparse.Namespace) -> int:
    """Run the command."""
    verbs = {"create": _create, "renew": _renew, "expire": _expire, "list": _list}
    return run_admin_verb(verbs, arguments)


async def _create(admin: Admin, arguments: argparse.Namespace) -> int:
    path: str | None = arguments.save
    # Before the token: one that nothing holds would live for days.
    descriptor = None if path is None else _new_file(path)
    try:
        token = await admin.tokens.create_token(
            arguments.renewer, arguments.max_lifetime, arguments.owner
        )
    except BaseException:
        if path is not None and descriptor is not None:
            os.close(descriptor)
            os.unlink(path)
        raise
    if descriptor is not None:
        _save(descriptor, arguments.bootstrap, token.login_settings(arguments.mechanism))
    _show(arguments, [token], has_secret=path is None)
    return 0


def _new_file(path: str) -> int:
    """Readable by its owner alone from its first byte on."""
    try:
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _OWNER_ONLY)
    except FileExistsError:
        raise UsageError(f"{path} exists already: --save writes a new file") from None


def _save(descriptor: int, bootstrap: str, login: Mapping[str, str]) -> None:
    """The connection of this command, with the token as its login."""
    # As every client of Kafka's takes it.
    login = {name: login[name] for name in ("sasl.mechanism", "sasl.jaas.config")}
    settings = {
        name: value
        for name, value in given().items()
        # A key of a certificate belongs to the user of this command.
        if name == "security.protocol" or name.startswith(("ssl.ca.", "ssl.truststore."))
    }
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(format_properties({SERVERS: bootstrap, **settings, **login}))


async def _renew(admin: Admin, arguments: argparse.Namespace) -> int:
    token = await _found(admin, arguments.token)
    expiry_ms = await admin.tokens.renew_token(token.hmac, arguments.period_ms)
    return _tell(arguments, "renewed", token, expiry_ms)


async def _expire(admin: Admin, arguments: argparse.Namespace) -> int:
    token = await _found(admin, arguments.token)
    expiry_ms = await admin.tokens.expire_token(token.hmac, arguments.period_ms)
    return _tell(arguments, "expired", token, expiry_ms)


async def _found(admin: Admin, token_id: str) -> DelegationToken:
    """Owners and renewers, who alone may change a token, also see it."""
    for token in await admin.tokens.describe_tokens():
        if token.token_id == token_id:
            return token
    raise CommandError(f"there is no token {token_id!r} that you may see")


async def _list(admin: Admin, arguments: argparse.Namespace) -> int:
    tokens = await admin.tokens.describe_tokens(arguments.owner or None)
    _show(arguments, tokens, has_secret=arguments.show_hmac)
    return 0


def _tell(arguments: argparse.Namespace, done: str, token: DelegationToken, expiry_ms: int) -> int:
    if arguments.format == "json":
        result = {"token_id": token.token_id, "status": done, "expires_ms": expiry_ms}
        write(json_document(result))
    else:
        write(f"{done} {token.token_id}: it expires {_moment(expiry_ms)}\n")
    return 0


def _show(
    arguments: argparse.Namespace, tokens: Sequence[DelegationToken], *, has_secret: bool
) -> None:
    if arguments.format == "json":
        write(json_document([_as_json(one, has_secret=has_secret) for one in tokens]))
        return
    rows = [
        (
            one.token_id,
            one.owner,
            one.requester or None,
            ", ".join(one.renewers) or None,
            *map(_moment, (one.issue_ms, one.expiry_ms, one.max_ms)),
            *((one.hmac.reveal(),) if has_secret else ()),
        )
        for one in tokens
    ]
    write(table((*_HEADINGS, "HMAC") if has_secret else _HEADINGS, rows))


def _as_json(token: DelegationToken, *, has_secret: bool) -> dict[str, object]:
    shown: dict[str, object] = {
        "token_id": token.token_id,
        "owner": token.owner,
        "requester": token.requester or None,
        "renewers": list(token.renewers),
        "issued_ms": token.issue_ms,
        "expires_ms": token.expiry_ms,
        "max_ms": token.max_ms,
    }
    if has_secret:
        shown["hmac"] = token.hmac.reveal()
    return shown


def _moment(wall_ms: int) -> str:
    try:
        moment = datetime.fromtimestamp(wall_ms / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return str(wall_ms)
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")
