"""``ottla completion``: the scripts that let a shell complete the command.

The scripts only know how to request completions, so they work with every later version.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse

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
