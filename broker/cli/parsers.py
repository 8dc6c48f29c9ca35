"""The command lines of the verbs that need a broker's own code, which is not loaded for them."""

from __future__ import annotations

from typing import Any

from ottla.client.cli.arguments import (
    Parser,
    add_client_options,
    add_format_options,
    add_verbs,
    checked,
    host,
    natural,
    one_line_parser,
    port,
    positive,
)

DEFAULT_HOST = "127.0.0.1"
DEFAULT_PORT = 9092
DEFAULT_CONSOLE_PORT = 8080
DEFAULT_DATA_DIR = "ottla-data"
# Not the same: what one broker wrote and what several did cannot be mixed.
DEFAULT_CLUSTER_DIR = "ottla-cluster"


def start_parser() -> Parser:
    """The command line, as ``ottla start --help`` shows it."""
    made = one_line_parser("start", "Run a broker.", "start --port 9092 --data-dir /var/lib/ottla")
    made.add_argument(
        "--host", type=checked(host), help=f"address to listen on (default {DEFAULT_HOST})"
    )
    made.add_argument(
        "--port",
        type=checked(port),
        help=f"port to listen on, 0 for a free one (default {DEFAULT_PORT})",
    )
    made.add_argument(
        "--data-dir",
        metavar="DIR",
        help=f"where the logs live, created if missing (default ./{DEFAULT_DATA_DIR}, with "
        f"--brokers or --processes ./{DEFAULT_CLUSTER_DIR})",
    )
    _add_cluster_options(made)
    made.add_argument(
        "--metrics",
        metavar="PORT",
        type=checked(port),
        help="port to serve /metrics, /healthz and /readyz on, 0 for a free one (default: none)",
    )
    made.add_argument(
        "--console",
        metavar="PORT",
        nargs="?",
        type=checked(port),
        const=DEFAULT_CONSOLE_PORT,
        help="also serve web pages that show the cluster, on 127.0.0.1 and this port (default "
        f"{DEFAULT_CONSOLE_PORT}; 0 for a free one): see 'ottla console'",
    )
    made.add_argument(
        "--listener-07",
        metavar="PORT",
        type=checked(port),
        help=f"port on {DEFAULT_HOST} for clients of Kafka 0.7, which have no logins (default: "
        "none)",
    )
    _add_setting_options(made)
    made.add_argument(
        "--secure",
        action="store_true",
        help="encrypt connections, require passwords, and allow only what access rules "
        "allow: creates "
        "certificates, the super user 'admin' and a settings file for clients in DIR/secure",
    )
    made.add_argument(
        "--add-scram",
        metavar="SCRAM-SHA-512=[name=NAME,password=PASSWORD]",
        action="append",
        default=[],
        help="a user to create before the broker serves clients, if it does not exist",
    )
    made.add_argument("--memory", action="store_true", help="keep everything in memory")
    made.add_argument("-v", "--verbose", action="store_true", help="log more")
    made.add_argument(
        "--log-format",
        choices=("text", "json"),
        default="text",
        help="how to write the log to standard error: lines of text, or a JSON object per line "
        "(default text)",
    )
    return made


def _add_cluster_options(made: Parser) -> None:
    made.add_argument(
        "--zookeeper",
        metavar="HOST:PORT[,HOST:PORT...][/CHROOT]",
        help="the ZooKeeper ensemble of the cluster to join (default: an embedded store)",
    )
    made.add_argument("--id", type=checked(natural), help="this broker's id in the cluster")
    made.add_argument(
        "--brokers",
        metavar="N",
        type=checked(positive),
        help="run a cluster of N brokers in this process, for development",
    )
    made.add_argument(
        "--processes",
        metavar="N",
        type=checked(positive),
        default=1,
        help="run N brokers on this machine, each in a process of its own, to use N cores "
        "(default 1): ports and ids count up from those given, data is in DIR/1 to DIR/N",
    )
    made.add_argument(
        "--many-processes",
        action="store_true",
        help="allow more than four processes for each processor of the machine",
    )


def _add_setting_options(made: Parser) -> None:
    made.add_argument("--config", metavar="FILE", help="a server.properties file")
    made.add_argument(
        "-o",
        dest="settings",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        help="a setting by Kafka's name; the last one of a name wins",
    )


def users_parser() -> Parser:
    """The command line, as ``ottla users --help`` shows it."""
    made = Parser(
        prog="ottla users",
        description="Create, list and delete the users that log in with SCRAM.",
        epilog="example: ottla users create alice --password-stdin < password",
        allow_abbrev=False,
    )
    verb = add_verbs(made)
    create = verb("create", "create a user or change its password", "alice --password-stdin")
    create.add_argument("name", metavar="NAME", help="the user")
    create.add_argument(
        "--password-stdin",
        action="store_true",
        help="read the password from standard input (default: ask for it)",
    )
    create.add_argument("--iterations", type=checked(natural), help="4096 (default) to 16384")
    _add_mechanism(create, "one mechanism only (default: both)")
    place = create.add_mutually_exclusive_group()
    place.add_argument(
        "--data-dir", metavar="DIR", help="write into the store of a stopped broker, offline"
    )
    place.add_argument(
        "--zookeeper",
        metavar="HOST:PORT[,HOST:PORT...][/CHROOT]",
        help="write into ZooKeeper, without a broker",
    )
    verb("list", "list the users and their mechanisms", "--json")
    delete = verb("delete", "delete a user, and end its sessions", "alice")
    delete.add_argument("name", metavar="NAME", help="the user")
    _add_mechanism(delete, "this one only (default: all)")
    return made


def secure_parser() -> Parser:
    """The command line, as ``ottla secure --help`` shows it."""
    made = Parser(
        prog="ottla secure",
        description="Make the certificates, passwords and settings of a secure cluster whose "
        "brokers run on several hosts. One broker: ottla start --secure.",
        epilog="example: ottla secure create secured --broker 1=kafka1 --broker 2=kafka2 "
        "--zookeeper zoo:2181 --clients kafka1:9093",
        allow_abbrev=False,
    )
    verbs = made.add_subparsers(dest="verb", metavar="VERB", required=True)
    create = verbs.add_parser(
        "create",
        help="create what is missing, and renew certificates that are about to expire",
        description="Create what is missing, and renew certificates that are about to expire. "
        "DIR/broker-ID is for the host of that broker, DIR/client for the operator, and the rest "
        "for no broker.",
        epilog="example: ottla secure create secured --broker 1=kafka1,localhost --zookeeper "
        "zoo:2181 --clients kafka1:9093",
        allow_abbrev=False,
    )
    add_format_options(create)
    create.add_argument("directory", metavar="DIR", help="where to; has DIR/broker-ID for each")
    create.add_argument(
        "--broker",
        dest="brokers",
        metavar="ID=HOST[,HOST...]",
        action="append",
        required=True,
        help="a broker, and the names and addresses of its host; may be given several times",
    )
    create.add_argument(
        "--clients",
        dest="bootstrap",
        metavar="HOST:PORT[,HOST:PORT...]",
        required=True,
        help="the addresses that clients connect to",
    )
    create.add_argument(
        "--zookeeper",
        metavar="HOST:PORT[,HOST:PORT...][/CHROOT]",
        help="the brokers' ZooKeeper: makes the users in it, and lets the brokers log in there",
    )
    _add_znodes(verbs)
    return made


def _add_znodes(verbs: Any) -> None:
    znodes = verbs.add_parser(
        "znodes",
        help="let only the brokers use the znodes that exist in ZooKeeper",
        description="Let only the brokers use the znodes that exist in ZooKeeper, and look whether "
        "all of them are closed then. Before that, restart all brokers with "
        "ottla.zookeeper.digest, and again with zookeeper.set.acl=true.",
        epilog="example: ottla secure znodes --config broker-1/broker.properties",
        allow_abbrev=False,
    )
    add_format_options(znodes)
    # The runner of all verbs checks it; this one asks no broker.
    znodes.set_defaults(bootstrap="localhost:9092")
    znodes.add_argument(
        "--config",
        metavar="FILE",
        required=True,
        help="the settings of a broker: zookeeper.connect, ottla.zookeeper.digest, ...",
    )
    ways = znodes.add_mutually_exclusive_group()
    ways.add_argument("--check", action="store_true", help="change nothing, only look")
    ways.add_argument("--open", action="store_true", help="let every program use them, as before")
    znodes.add_argument(
        "--with-consumers",
        action="store_true",
        help="also /consumers: the first consumers, which keep their groups there, then have to "
        "log in to ZooKeeper as the brokers do",
    )


def _add_mechanism(verb: Parser, meaning: str) -> None:
    verb.add_argument(
        "--mechanism", choices=("SCRAM-SHA-256", "SCRAM-SHA-512"), default=None, help=meaning
    )


def log_parser() -> Parser:
    """The command line, as ``ottla log --help`` shows it."""
    made = one_line_parser(
        "log", "Look into the files of a stopped broker.", "log repair ottla-data"
    )
    verbs = made.add_subparsers(dest="verb", required=True, metavar="VERB")
    dump = verbs.add_parser(
        "dump",
        help="print what is in a file of a partition",
        description="Print what is in a file of a partition, one line for each batch or entry. "
        "Only reads.",
        epilog="example: ottla log dump ottla-data/orders-0/00000000000000000000.log --records",
    )
    dump.add_argument("file", metavar="FILE", help="a segment, one of its indexes, or a checkpoint")
    dump.add_argument("--records", action="store_true", help="print every record as well")
    mend = verbs.add_parser(
        "repair",
        help="report damaged logs and, if wanted, truncate them",
        description="Say which logs are damaged, where, and what would be lost by cutting them "
        "there. Changes nothing unless --truncate is given, and then keeps what it cuts.",
        epilog="example: ottla log repair ottla-data",
    )
    mend.add_argument(
        "directory", metavar="DIR", help="a data directory (log.dirs), or a partition's in it"
    )
    mend.add_argument("--truncate", action="store_true", help="cut damaged logs at the damage")
    for each in (dump, mend):
        add_format_options(each)
    return made


def doctor_parser() -> Parser:
    """The command line, as ``ottla doctor --help`` shows it."""
    made = one_line_parser(
        "doctor",
        "Check this machine, a data directory and a cluster, and report what is wrong and what to "
        "do. Changes nothing. Status 1 if something has to be done.",
        "doctor -b broker-1:9092 --data-dir /var/lib/ottla",
    )
    add_client_options(made)
    made.add_argument(
        "--data-dir",
        metavar="DIR",
        help=f"where the logs live, or will live (default ./{DEFAULT_DATA_DIR})",
    )
    made.add_argument(
        "--processes",
        metavar="N",
        type=checked(positive),
        default=1,
        help="check the ports of N brokers, for 'ottla start --processes N' (default 1)",
    )
    made.add_argument(
        "--zookeeper",
        metavar="HOST:PORT[,HOST:PORT...][/CHROOT]",
        help="the ZooKeeper ensemble that brokers meet in",
    )
    _add_setting_options(made)
    made.add_argument(
        "--bundle",
        metavar="FILE",
        help="also write FILE, a .tar.gz for a report of a problem: the findings, settings without "
        "secrets, versions, brokers, topics, groups and metrics, and no records",
    )
    made.add_argument(
        "--local", action="store_true", help="this machine only: do not look for brokers"
    )
    return made
