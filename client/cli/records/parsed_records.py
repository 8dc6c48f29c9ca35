"""Parses the lines of ``ottla produce``: a key and a value, or a record as JSON.

The JSON is the output of ``ottla consume --json``, so that records can be kept in a file, searched
with other tools, and sent again.
"""

from __future__ import annotations

import base64
import binascii
import json
import os
from typing import TYPE_CHECKING, Any

from ottla.client.cli.arguments import INT32_MAX
from ottla.client.cli.run import CommandError
from ottla.client.records.record_checks import TIMESTAMP_MAX
from ottla.protocol.named_tuples import NamedTuple

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from ottla.client.records.producer_record import Headers


class Outgoing(NamedTuple):
    """A record to send; None leaves partition and timestamp to the producer."""

    key: bytes | None
    value: bytes | None
    headers: Headers = ()
    partition: int | None = None
    timestamp: int | None = None


def from_line(arguments: argparse.Namespace) -> Callable[[bytes], Outgoing]:
    """The function that parses a line into key and value, by the command line's options.

    A line without the separator has no key; with ``--tombstones`` an empty value becomes null."""
    separator: bytes | None = arguments.key_separator
    fixed = None if arguments.key is None else os.fsencode(arguments.key)
    headers: Headers = tuple(arguments.header)
    is_null_empty: bool = arguments.tombstones

    def parse(line: bytes) -> Outgoing:
        key, value = fixed, line
        if separator is not None:
            before, found, after = line.partition(separator)
            if found:
                key, value = before, after
        return Outgoing(key, None if is_null_empty and not value else value, headers)

    return parse


def from_json(arguments: argparse.Namespace) -> Callable[[bytes], Outgoing]:
    """The function that parses a record in JSON."""
    fixed = None if arguments.key is None else os.fsencode(arguments.key)
    headers: Headers = tuple(arguments.header)
    with_partition: bool = arguments.same_partitions
    is_null_empty: bool = arguments.tombstones

    def parse(line: bytes) -> Outgoing:
        try:
            document = read_json(line)
            if not isinstance(document, dict):
                raise ValueError("it is no object")
            value = member(document, "value")
            return Outgoing(
                member(document, "key") if fixed is None else fixed,
                None if is_null_empty and not value else value,
                (*listed_headers(document), *headers),
                number(document, "partition", INT32_MAX) if with_partition else None,
                number(document, "timestamp", TIMESTAMP_MAX),
            )
        except ValueError as error:
            shown = line[:40].decode("utf-8", "replace")
            raise CommandError(f"this line is no record, {error}: {shown!r}") from None

    return parse


def read_json(line: bytes) -> object:
    """Parse JSON. Raises ValueError, also for too deep nesting."""
    try:
        return json.loads(line)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def member(document: dict[str, Any], name: str) -> bytes | None:
    """A member as bytes: text as UTF-8, ``<name>_base64`` decoded, other JSON as written, null or
    missing as None. Raises ValueError."""
    encoded = document.get(f"{name}_base64")
    if encoded is not None:
        try:
            return base64.b64decode(encoded, validate=True)
        except (TypeError, binascii.Error):
            raise ValueError(f"its {name}_base64 is not base64") from None
    value = document.get(name)
    if value is None:
        return None
    if isinstance(value, str):
        return value.encode("utf-8", "surrogateescape")
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def listed_headers(document: dict[str, Any]) -> Headers:
    """Headers from ``[{"name": ..., "value": ...}, ...]``, or from an object of names and values.

    Raises ValueError."""
    found = document.get("headers") or []
    if isinstance(found, dict):
        found = [{"name": name, "value": value} for name, value in found.items()]
    try:
        return tuple((str(one["name"]), member(one, "value")) for one in found)
    except (TypeError, KeyError):
        raise ValueError("its headers are no list of objects with name and value") from None


def number(document: dict[str, Any], name: str, most: int) -> int | None:
    """A whole number from 0 on, or None if missing or -1. Raises ValueError."""
    value = document.get(name)
    if value is None or value == -1:
        return None
    if type(value) is not int or value < 0:
        raise ValueError(f"its {name} is not a number from 0 on")
    if value > most:
        raise ValueError(f"its {name} is too large: {most} is the most")
    return value
