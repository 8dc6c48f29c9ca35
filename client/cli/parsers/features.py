"""The command line of ``ottla features``."""

from __future__ import annotations

from ottla.client.cli.arguments import INT16_MAX, Parser, add_verbs, checked, natural, setting


def parser() -> Parser:
    """The command line, as ``ottla features --help`` shows it."""
    made = Parser(
        prog="ottla features",
        description="Look at the features that a cluster can switch on, and switch them.",
        epilog="example: ottla features list",
        allow_abbrev=False,
    )
    verb = add_verbs(made)
    verb("list", "show the levels of all features", "")
    for name, purpose in (
        ("upgrade", "set features to higher levels"),
        ("downgrade", "set features to lower levels, where nothing is lost by it"),
    ):
        change = verb(name, purpose, "transaction.version=2")
        change.add_argument(
            "features", metavar="NAME=LEVEL", nargs="+", type=checked(feature_level)
        )
        _add_dry_run(change)
    disable = verb("disable", "switch features off", "transaction.version")
    disable.add_argument("features", metavar="NAME", nargs="+", type=checked(feature_off))
    _add_dry_run(disable)
    return made


def _add_dry_run(verb: Parser) -> None:
    verb.add_argument("--dry-run", action="store_true", help="only check whether it would succeed")


def feature_level(text: str) -> tuple[str, int]:
    """Read ``name=1``. Raises ValueError."""
    name, level = setting(text)
    return name, natural(level, INT16_MAX)


def feature_off(text: str) -> tuple[str, int]:
    """Read a name, with level 0."""
    return text, 0
