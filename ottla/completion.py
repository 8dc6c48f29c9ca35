"""``ottla completion``, and the completions that its scripts request.

The scripts only know how to request completions, so they work with every later version. An answer
is a line that says whether the shell should offer its own files, then a line for each word and,
after a tab, its meaning.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from ottla.client.cli.completing import CandidateSource, Completion, Word
from ottla.client.cli.completing import complete as complete_within
from ottla.verbs import VERBS, load, split

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

FILES = ":files"
WORDS = ":words"
GLOBAL_OPTIONS = (
    Word("--bootstrap", "a broker of the cluster"),
    Word("--format", "how to write results"),
    Word("--help", "tell what there is"),
    Word("--json", "the same as --format json"),
    Word("--version", "tell the version"),
)
# Loaded only if the word can be a topic or a group: it needs a client.
NAMES = "ottla.client.cli.names:names_of"

BASH = r"""# ottla completion bash
_ottla() {
    local word current stem
    local -a words
    read -ra words <<< "${COMP_LINE:0:COMP_POINT}"
    [[ "${COMP_LINE:0:COMP_POINT}" == *[[:space:]] ]] && words+=("")
    COMPREPLY=()
    # Bash takes a word apart at : and =; what stands before must not be repeated.
    current="${words[${#words[@]} - 1]}"
    stem="${COMP_WORDS[COMP_CWORD]}"
    [[ "$stem" == [:=] ]] && stem=""
    stem="${current%"$stem"}"
    while IFS=$'\t' read -r word _; do
        case "$word" in
            :files) compopt -o default; return ;;
            :words) ;;
            *) COMPREPLY+=("${word#"$stem"}") ;;
        esac
    done < <("${words[0]}" __complete "${words[@]:1}" 2> /dev/null)
}
complete -F _ottla ottla
"""
ZSH = r"""#compdef ottla
# ottla completion zsh
_ottla() {
    local line
    local -a found
    for line in "${(@f)$("${words[1]}" __complete "${(@)words[2,CURRENT]}" 2> /dev/null)}"; do
        case "$line" in
            :files) _files; return ;;
            :words) ;;
            ?*) found+=("${${line%%$'\t'*}//:/\\:}:${line#*$'\t'}") ;;
        esac
    done
    _describe -V 'ottla' found
}
if [[ "$funcstack[1]" == _ottla ]]; then
    _ottla "$@"
else
    compdef _ottla ottla
fi
"""
FISH = r"""# ottla completion fish
function __ottla_complete
    set -l words (commandline -opc) (commandline -ct)
    set -l found ($words[1] __complete $words[2..-1] 2> /dev/null)
    if test "$found[1]" = :files
        __fish_complete_path (commandline -ct)
    else if set -q found[2]
        string join \n -- $found[2..-1]
    end
end
complete -c ottla -f -k -a '(__ottla_complete)'
"""
SCRIPTS = {"bash": BASH, "zsh": ZSH, "fish": FISH}


def main(arguments: argparse.Namespace) -> int:
    """Write the script."""
    sys.stdout.write(SCRIPTS[arguments.shell])
    return 0


def complete(words: Sequence[str]) -> int:
    """Write the candidates for the last word. Reports no errors, which the shell would not show."""
    found = completion_of(words or [""])
    if found.source is CandidateSource.FILES and not found.words:
        sys.stdout.write(f"{FILES}\n")
        return 0
    candidates = found.words
    if found.source in (CandidateSource.TOPICS, CandidateSource.GROUPS):
        candidates = [Word(name) for name in load(NAMES)(found.source, words)]
    lines = [f"{word.text}\t{word.meaning}\n" for word in candidates]
    sys.stdout.write("".join([f"{WORDS}\n", *lines]))
    return 0


def completion_of(words: Sequence[str]) -> Completion:
    """The candidates for the last word of a command line, given without its first word."""
    *before, current = words
    verb, others = split(before)
    if verb in VERBS:
        return complete_within(load(VERBS[verb].parser)(), [*others, current])
    if before and before[-1] == "--format":
        choices = [Word("text"), Word("json")]
    elif current.startswith("-"):
        choices = list(GLOBAL_OPTIONS)
    else:
        choices = [Word(name, one.purpose) for name, one in VERBS.items()]
    return Completion([word for word in choices if word.text.startswith(current)])
