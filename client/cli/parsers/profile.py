"""The command line of ``ottla profile``."""

from __future__ import annotations

from ottla.client.cli.arguments import (
    Parser,
    add_format_options,
    as_sentence,
    checked,
    setting,
)


def parser() -> Parser:
    """The command line, as ``ottla profile --help`` shows it."""
    made = Parser(
        prog="ottla profile",
        description="Keep the address and the settings of a cluster, with its secrets, in a file "
        "that only you can read.",
        epilog="example: ottla profile create prod -b kafka:9093 -X security.protocol=SSL",
        allow_abbrev=False,
    )
    add_format_options(made)
    verbs = made.add_subparsers(dest="verb", metavar="VERB", required=True)

    def verb(name: str, purpose: str, example: str) -> Parser:
        inner = verbs.add_parser(
            name,
            help=purpose,
            description=as_sentence(purpose),
            epilog=f"example: ottla profile {name} {example}".rstrip(),
            allow_abbrev=False,
        )
        add_format_options(inner, is_outer=False)
        return inner

    create = verb("create", "create a profile, or replace it", "prod --command-config client.conf")
    _add_name(create)
    _add_settings(create)
    verb("list", "list the profiles; * marks the current one", "")
    _add_name(verb("show", "show the settings of a profile, without secrets", "prod"))
    use = verb("use", "let all commands use a profile from now on", "prod")
    _add_name(use, is_optional=True)
    use.add_argument("--none", action="store_true", help="let commands use no profile")
    _add_name(verb("delete", "delete a profile", "prod"))
    return made


def _add_name(verb: Parser, *, is_optional: bool = False) -> None:
    verb.add_argument("name", metavar="PROFILE", nargs="?" if is_optional else None)


def _add_settings(verb: Parser) -> None:
    verb.add_argument(
        "-b", "--bootstrap", dest="address", metavar="HOST:PORT", help="a broker of the cluster"
    )
    verb.add_argument(
        "--command-config",
        metavar="FILE",
        help="a properties file whose settings the profile takes, by Kafka's names",
    )
    verb.add_argument(
        "-X",
        "--property",
        dest="properties",
        metavar="NAME=VALUE",
        type=checked(setting),
        action="append",
        default=[],
        help="a setting, such as sasl.username=alice; may be given several times",
    )
    verb.add_argument(
        "--password",
        action="store_true",
        help="read sasl.password from standard input; at a terminal it is not shown",
    )
