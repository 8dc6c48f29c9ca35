"""The command line of ``ottla consume``."""

from __future__ import annotations

from ottla.client.cli.arguments import (
    Parser,
    add_client_options,
    checked,
    delimiter,
    group,
    name_or_pattern,
    numbers,
    one_line_parser,
    positive,
)
from ottla.client.cli.position_specs import BEGINNING, read_range_position


def parser() -> Parser:
    """The command line, as ``ottla consume --help`` shows it."""
    made = one_line_parser(
        "consume",
        "Write the records of topics to standard output.",
        r"consume orders -o beginning -e -f '%p@%o %k=%v\n'",
    )
    add_client_options(made)
    made.add_argument(
        "topics",
        metavar="TOPIC",
        nargs="+",
        type=checked(name_or_pattern),
        help="a topic, or ^REGEX for all that match",
    )
    _add_range_options(made)
    made.add_argument(
        "-g",
        "--group",
        metavar="GROUP",
        type=checked(group),
        help="read as a member of this group, from its committed offsets, and commit what "
        "was written",
    )
    made.add_argument(
        "--group-protocol",
        choices=("classic", "consumer"),
        default="classic",
        help="the group protocol: the classic one, or the newer one of KIP-848 (default classic)",
    )
    _add_writing_options(made)
    made.add_argument(
        "--read-committed", action="store_true", help="leave out open and aborted transactions"
    )
    made.set_defaults(places=[])
    return made


def _add_range_options(made: Parser) -> None:
    made.add_argument(
        "-o",
        "--offset",
        dest="places",
        metavar="WHERE",
        action="append",
        type=checked(read_range_position),
        help="begin at: N, -N from the end, beginning, end, stored (committed offsets), @TIME "
        "or s@TIME; stop at e@TIME; a TIME is milliseconds since 1970 or ISO 8601, UTC unless it "
        "says otherwise (default end, with a group stored)",
    )
    made.add_argument(
        "--from-beginning",
        dest="places",
        action="append_const",
        const=BEGINNING,
        help="the same as -o beginning",
    )
    made.add_argument(
        "-p",
        "--partition",
        metavar="P,P",
        type=checked(numbers),
        help="these partitions only; a group is not joined then, and nothing is committed",
    )
    made.add_argument(
        "--filter",
        metavar="EXPR",
        help="only records for which it holds, such as \"value.amount > 100 and key =~ '^eu-'\": "
        "topic, partition, offset, timestamp, key, value, header.NAME, members of JSON such as "
        "value.items[0].id; == != < <= > >= =~ !~ contains startswith endswith; and, or, not",
    )
    made.add_argument(
        "-e", "--exit", action="store_true", help="stop at the current end, do not wait for more"
    )
    made.add_argument(
        "-c",
        "-n",
        "--count",
        metavar="N",
        type=checked(positive),
        help="stop after that many records",
    )


def _add_writing_options(made: Parser) -> None:
    made.add_argument(
        "--schema-registry",
        metavar="URL",
        help="write keys and values in the Confluent wire format as JSON, by the schemas of this "
        "registry: Avro (needs the package fastavro), Protobuf (the package protobuf) and JSON "
        "Schema",
    )
    made.add_argument(
        "-f",
        "--line",
        metavar="FORMAT",
        help="how to write a record: %%t topic, %%p partition, %%o offset, %%k key, %%v or %%s "
        "value, %%h headers, %%T timestamp in ms or %%T{STRFTIME}, %%K and %%S length of key and "
        "value, %%k{hex}, %%v{base64} and %%v{pack:>Iq} bytes as text, "
        "%%Q and %%R the same as four bytes, %%%% a percent sign, and the escapes "
        r"\n \t \r \0 \xHH \\ (default %%v\n)",
    )
    made.add_argument(
        "-K",
        "--key-separator",
        metavar="SEP",
        type=checked(delimiter),
        help="write the key and SEP before the value",
    )
    made.add_argument(
        "-H", "--headers", action="store_true", help="write the headers and a tab first"
    )
    made.add_argument(
        "-D",
        "--delimiter",
        metavar="SEP",
        type=checked(delimiter),
        default=b"\n",
        help=r"what to write after each record (default \n)",
    )
    made.add_argument(
        "--null", dest="delimiter", action="store_const", const=b"\0", help=r"the same as -D '\0'"
    )
    made.add_argument(
        "-Z", "--show-null", action="store_true", help="write NULL for a null key or value"
    )
