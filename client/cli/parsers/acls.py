"""The command line of ``ottla acls``."""

from __future__ import annotations

from ottla.client.cli.arguments import Parser, add_verbs, checked

# The options that name resources, and what stands for the name.
_RESOURCES = (
    ("topic", "T"),
    ("group", "G"),
    ("transactional-id", "ID"),
    ("user", "User:NAME"),
    ("delegation-token", "ID"),
)


def parser() -> Parser:
    """The command line, as ``ottla acls --help`` shows it."""
    made = Parser(
        prog="ottla acls",
        description="Show who may do what: list, add and remove access rules, and explain them.",
        epilog="example: ottla acls add --allow User:app --operation read --topic orders --group g",
        allow_abbrev=False,
    )
    verb = add_verbs(made)
    found = verb("list", "show rules", "--topic orders --match")
    _add_resources(found)
    found.add_argument(
        "--match",
        action="store_true",
        help="also rules with a prefix, and for all resources, that cover the name",
    )
    _add_caller(found)
    add = verb("add", "add rules", "--allow User:app --operation read,write --topic orders")
    _add_resources(add)
    for option, word in (("--allow", "allowed"), ("--deny", "denied, whatever else is allowed")):
        add.add_argument(
            option,
            metavar="User:NAME",
            type=checked(principal),
            action="append",
            default=[],
            help=f"who is {word}; User:* for all users; may be given several times",
        )
    _add_operation(add, "what, with commas: read, write, create, delete, alter, describe, all, ...")
    add.add_argument("--host", metavar="H", action="append", default=[], help=_HOST)
    remove = verb("remove", "remove rules", "--principal User:app --topic orders")
    _add_resources(remove)
    _add_caller(remove)
    _add_operation(remove, "only rules about these, with commas")
    remove.add_argument("--dry-run", action="store_true", help="only show what would be removed")
    explain = verb(
        "explain",
        "show who may do what, and by which rule; with --principal status 1 if it may not",
        "--topic orders",
    )
    _add_resources(explain, has_prefix=False)
    _add_caller(explain)
    _add_operation(explain, "only these, with commas")
    return made


_HOST = "from which address, or network such as 10.1.0.0/16, only; may be given several times"


def _add_resources(verb: Parser, *, has_prefix: bool = True) -> None:
    for name, meaning in _RESOURCES:
        verb.add_argument(
            f"--{name}",
            metavar=meaning,
            action="append",
            default=[],
            help=f"a {name.replace('-', ' ')}" + (", * for all" if has_prefix else ""),
        )
    verb.add_argument("--cluster", action="store_true", help="the cluster itself")
    if has_prefix:
        verb.add_argument(
            "--prefixed", action="store_true", help="the names are beginnings of names"
        )


def _add_caller(verb: Parser) -> None:
    verb.add_argument(
        "--principal", metavar="User:NAME", type=checked(principal), help="of this principal only"
    )
    verb.add_argument("--host", metavar="H", help="for this host only")


def _add_operation(verb: Parser, words: str) -> None:
    verb.add_argument(
        "--operation",
        metavar="OP,OP",
        type=checked(operations),
        default=[],
        action="extend",
        help=words,
    )


def principal(text: str) -> str:
    """Read ``User:name``. Raises ValueError."""
    kind, separator, name = text.partition(":")
    if not (kind and separator and name):
        raise ValueError(f"{text!r} is not of the form User:NAME")
    return text


def operations(text: str) -> list[str]:
    """Read names with commas. Raises ValueError."""
    names = [name.strip() for name in text.split(",") if name.strip()]
    if not names:
        raise ValueError("name an operation")
    return names
