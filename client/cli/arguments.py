"""Command lines: what all client commands share, and errors of one sentence."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, NoReturn

from ottla.client.config import DEFAULT_PORT, parse_addresses

if TYPE_CHECKING:
    from collections.abc import Callable

DEFAULT_BOOTSTRAP = f"127.0.0.1:{DEFAULT_PORT}"
USAGE_ERROR = 2
PORT_MAX = 65_535


class Parser(argparse.ArgumentParser):
    """Says in one sentence what is wrong, instead of repeating the whole usage."""

    def error(self, message: str) -> NoReturn:
        self.exit(USAGE_ERROR, f"{self.prog}: {message}; see '{self.prog} --help'\n")


def add_client_options(parser: argparse.ArgumentParser, *, is_outer: bool) -> None:
    """``-b`` and ``--format``, before or after a sub-command.

    Only the outer parser may have defaults: an inner one would set them again, over what was
    given before the sub-command."""

    def default(value: str) -> str:
        return value if is_outer else argparse.SUPPRESS

    parser.add_argument(
        "-b",
        "--bootstrap",
        metavar="HOST:PORT",
        type=checked(bootstrap),
        default=default(DEFAULT_BOOTSTRAP),
        help=f"a broker of the cluster, or several with commas (default {DEFAULT_BOOTSTRAP})",
    )
    parser.add_argument(
        "--format",
        choices=("text", "json"),
        default=default("text"),
        help="how to write results (default text)",
    )


def as_sentence(purpose: str) -> str:
    """What a list of verbs says of one, as its own help begins."""
    return f"{purpose[0].upper()}{purpose[1:]}."


def add_verbs(parser: Parser) -> Callable[[str, str], argparse.ArgumentParser]:
    """Give a client command verbs of its own: the function adds one by name and purpose."""
    add_client_options(parser, is_outer=True)
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", required=True)

    def verb(name: str, purpose: str) -> argparse.ArgumentParser:
        inner: argparse.ArgumentParser = verbs.add_parser(
            name, help=purpose, description=as_sentence(purpose), allow_abbrev=False
        )
        add_client_options(inner, is_outer=False)
        return inner

    return verb


def bootstrap(text: str) -> str:
    """The text itself if it is a list of addresses. Raises ValueError."""
    parse_addresses(text)
    return text


def setting(text: str) -> tuple[str, str]:
    """Read ``key=value``. Raises ValueError."""
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise ValueError(f"{text!r} is not of the form key=value")
    return key.strip(), value


def positive(text: str) -> int:
    """Read a number from 1 on. Raises ValueError."""
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise ValueError(f"{text!r} is not a number from 1 on")
    return int(text)


def natural(text: str) -> int:
    """Read a number from 0 on. Raises ValueError."""
    if not text.isascii() or not text.isdigit():
        raise ValueError(f"{text!r} is not a number from 0 on")
    return int(text)


def port(text: str) -> int:
    """Read a port to listen on. Raises ValueError."""
    if not text.isascii() or not text.isdigit() or int(text) > PORT_MAX:
        raise ValueError(f"{text!r} is not a port, which is a number from 0 to {PORT_MAX}")
    return int(text)


def host(text: str) -> str:
    """Read a name or address to listen on. Raises ValueError."""
    bare = text.removeprefix("[").removesuffix("]")
    if not bare or any(sign.isspace() or sign in "/,[]" for sign in bare):
        raise ValueError(f"{text!r} is not a name or an address")
    return bare


def topic_partitions(text: str) -> tuple[str, list[int] | None]:
    """``topic`` or ``topic:0,1``. Raises ValueError."""
    topic, colon, numbers = text.partition(":")
    if not colon:
        return topic, None
    try:
        return topic, [int(number) for number in numbers.split(",")]
    except ValueError:
        raise ValueError(f"{text!r} is not of the form TOPIC:P or TOPIC:P,P") from None


def node_ids(text: str) -> list[int]:
    """Read ``1,2,3``. Raises ValueError."""
    try:
        found = [natural(number) for number in text.split(",")]
    except ValueError:
        raise ValueError(f"{text!r} is not of the form ID,ID") from None
    if len(set(found)) < len(found):
        raise ValueError(f"{text!r} names a broker twice")
    return found


def checked(read: Callable[[str], object]) -> Callable[[str], object]:
    """Let argparse show the reader's own words, which it hides for a plain ValueError."""

    def convert(text: str) -> object:
        try:
            return read(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from error

    return convert
