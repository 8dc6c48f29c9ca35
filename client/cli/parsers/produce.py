"""The command line of ``ottla produce``."""

from __future__ import annotations

from ottla.client.cli.arguments import (
    Parser,
    add_client_options,
    checked,
    delimiter,
    header,
    natural,
    one_line_parser,
    partition_number,
    positive,
    seconds,
)

ACKS = ("0", "1", "all", "-1")
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


def parser() -> Parser:
    """The command line, as ``ottla produce --help`` shows it."""
    made = one_line_parser(
        "produce",
        "Send lines of standard input or of files to a topic, one record each.",
        "produce orders -K : -z zstd < orders.txt",
    )
    add_client_options(made)
    made.add_argument("topic", metavar="TOPIC")
    made.add_argument(
        "files",
        metavar="FILE",
        nargs="*",
        help="files to read instead of standard input; - means standard input",
    )
    _add_reading_options(made)
    _add_record_options(made)
    made.add_argument(
        "-p", "--partition", type=checked(partition_number), help="send all to this partition"
    )
    add_sending_options(made)
    made.add_argument(
        "--timeout",
        metavar="SECONDS",
        type=checked(seconds),
        help="give up when the brokers have acknowledged nothing for that long, 0 for never "
        "(default 30)",
    )
    return made


def _add_reading_options(made: Parser) -> None:
    how = made.add_mutually_exclusive_group()
    how.add_argument(
        "-J",
        "--from-json",
        action="store_true",
        help="each line is an object as 'ottla consume --json' writes them: key, value, headers "
        "and timestamp are sent, the rest is passed over",
    )
    how.add_argument(
        "-f",
        "--line",
        metavar="FORMAT",
        help="how a record is written, as for consume: %%k key, %%v value, %%h headers, %%p "
        "partition, %%T timestamp in ms, %%t and %%o are passed over; %%k{hex}, %%v{base64} and "
        r"%%v{pack:>Iq} as for consume; the last text ends a record, as in '%%k\t%%v\n'",
    )
    how.add_argument(
        "-w", "--whole", action="store_true", help="each file, or all of the input, is one record"
    )
    how.add_argument(
        "-D",
        "--delimiter",
        metavar="SEP",
        type=checked(delimiter),
        default=b"\n",
        help=r"what ends a record (default \n)",
    )
    how.add_argument(
        "--null", dest="delimiter", action="store_const", const=b"\0", help=r"the same as -D '\0'"
    )
    made.add_argument(
        "--from-line",
        metavar="N",
        type=checked(positive),
        default=1,
        help="begin at this record of the input, counted from 1 over all files: where a failed "
        "command says to go on",
    )
    made.add_argument(
        "--same-partitions",
        action="store_true",
        help="with --from-json: send each to the partition that it names",
    )


def _add_record_options(made: Parser) -> None:
    keys = made.add_mutually_exclusive_group()
    keys.add_argument(
        "-K",
        "--key-separator",
        metavar="SEP",
        type=checked(delimiter),
        help="the text before the first SEP of a line is the key",
    )
    keys.add_argument("-k", "--key", metavar="KEY", help="the key of every record")
    made.add_argument(
        "-H",
        "--header",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        type=checked(header),
        help="a header for every record",
    )
    made.add_argument(
        "--schema-registry",
        metavar="URL",
        help="send values, which are JSON, in the Confluent wire format, by the newest schema of "
        "--subject in this registry: Avro (needs the package fastavro), Protobuf (the package "
        "protobuf) and JSON Schema",
    )
    _add_schema_options(made)
    made.add_argument(
        "-Z",
        "--tombstones",
        action="store_true",
        help="an empty value is a null, which deletes its key from a compacted topic",
    )


def _add_schema_options(made: Parser) -> None:
    values = made.add_mutually_exclusive_group()
    values.add_argument(
        "--subject", metavar="SUBJECT", help="the subject of the schema (default TOPIC-value)"
    )
    values.add_argument(
        "--schema", metavar="ID", type=checked(natural), help="this schema instead of a newest one"
    )
    made.add_argument(
        "--message",
        metavar="NAME",
        help="the Protobuf message of the schema to send (default: its first)",
    )
    keys = made.add_mutually_exclusive_group()
    keys.add_argument(
        "--key-subject",
        metavar="SUBJECT",
        help="send keys, which are JSON, by the newest schema of this subject, such as TOPIC-key "
        "(default: keys as they are)",
    )
    keys.add_argument(
        "--key-schema", metavar="ID", type=checked(natural), help="send keys by this schema"
    )


def add_sending_options(made: Parser) -> None:
    """Add ``--acks`` and ``-z``."""
    made.add_argument(
        "--acks",
        choices=ACKS,
        default="all",
        help="which replicas must acknowledge a record (default all)",
    )
    made.add_argument(
        "-z",
        "--compression",
        choices=CODECS,
        default="none",
        help="how to compress batches (default none)",
    )
