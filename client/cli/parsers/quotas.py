"""The command line of ``ottla quotas``."""

from __future__ import annotations

from ottla.client.cli.arguments import Parser, add_verbs, checked, setting

KEYS = (
    "producer_byte_rate",
    "consumer_byte_rate",
    "request_percentage",
    "controller_mutation_rate",
    "connection_creation_rate",
)
_FACTORS = {"k": 1_000, "M": 1_000_000, "G": 1_000_000_000}


def parser() -> Parser:
    """The command line, as ``ottla quotas --help`` shows it."""
    made = Parser(
        prog="ottla quotas",
        description="Limit how much users, client ids and addresses may do.",
        epilog="example: ottla quotas set --user alice producer_byte_rate=1M",
        allow_abbrev=False,
    )
    verb = add_verbs(made)
    limit = verb("set", "set quotas", "--user alice --client app consumer_byte_rate=500k")
    _add_entity(limit)
    limit.add_argument(
        "quotas",
        metavar="KEY=VALUE",
        nargs="+",
        type=checked(quota),
        help=f"{', '.join(KEYS)}; bytes, partitions and connections are per second, and k, M and "
        "G multiply a number by thousands",
    )
    limit.add_argument("--dry-run", action="store_true", help="only check whether it would succeed")
    shown = verb("list", "show the quotas that are set", "--user alice")
    _add_entity(shown)
    removed = verb("remove", "remove quotas", "--client-defaults")
    _add_entity(removed)
    removed.add_argument("keys", metavar="KEY", nargs="*", help="these only (default: all)")
    return made


def _add_entity(verb: Parser) -> None:
    for name, kind, what in (
        ("user", "user", "user"),
        ("client", "client-id", "client id"),
        ("ip", "ip", "address"),
    ):
        one = verb.add_mutually_exclusive_group()
        one.add_argument(f"--{name}", metavar="NAME", dest=kind, help=f"this {what}")
        one.add_argument(
            f"--{name}-defaults",
            dest=f"{kind}-defaults",
            action="store_true",
            help=f"each {what} that has no quota of its own",
        )


def quota(text: str) -> tuple[str, float]:
    """Read ``producer_byte_rate=1M``. Raises ValueError."""
    key, value = setting(text)
    if key not in KEYS:
        raise ValueError(f"there is no quota {key}; there are {', '.join(KEYS)}")
    number, factor = (value[:-1], _FACTORS[value[-1]]) if value[-1:] in _FACTORS else (value, 1)
    try:
        found = float(number) * factor
    except ValueError:
        raise ValueError(f"{key} is a number, not {value!r}") from None
    if not 0 < found < float("inf"):
        raise ValueError(f"{key} has to be greater than 0, not {value}")
    return key, found
