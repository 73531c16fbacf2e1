# SPDX-License-Identifier: Apache-2.0
# bash completion for dlock. What it offers is read from the help of the command itself.

_dlock_keys() {
    local store=()
    [[ $COMP_LINE =~ --store[=\ ]+([^\ ]+) ]] && store=(--store "${BASH_REMATCH[1]}")
    timeout 2 "$1" list --json --local "${store[@]}" </dev/null 2>/dev/null | grep -oE '"key":"[^"\\]*"' | cut -d'"' -f4
}

# _dlock_words LINES: those that begin as the word under the cursor, which readline has cut at each colon. Not by
# compgen -W: it would run what stands in a key.
_dlock_words() {
    local head='' word
    [[ $COMP_LINE =~ ([^\ ]*:)[^\ :]*$ && $COMP_WORDBREAKS == *:* ]] && head=${BASH_REMATCH[1]}
    while IFS= read -r word; do
        [[ -n $word && $word == "$head${current#:}"* ]] && COMPREPLY+=("$(printf %q "${word#"$head"}")")
    done <<<"$1"
}

_dlock() {
    local dlock=$1 current=$2 previous=$3 verb='' verbs help i
    COMPREPLY=()
    verbs=$("$dlock" --help 2>/dev/null | sed -n '/^Verbs/,/^$/s/^  \([a-z-]*\) .*/\1/p')
    for ((i = 1; i < COMP_CWORD; i++)); do
        if [[ ${COMP_WORDS[i]} == -- ]]; then
            # What run runs: a command, then its files.
            if ((i + 1 == COMP_CWORD)); then i=-c; else i=-f; fi
            mapfile -t COMPREPLY < <(compgen $i -- "$current")
            return
        fi
        [[ -z $verb && $'\n'"$verbs"$'\n' == *$'\n'"${COMP_WORDS[i]}"$'\n'* ]] && verb=${COMP_WORDS[i]}
    done
    if [[ -z $verb ]]; then
        [[ $previous == --store ]] || _dlock_words "$verbs"$'\n--help\n--version\n--store'
        return
    fi
    help=$("$dlock" "$verb" --help 2>/dev/null | sed -n '/^[PO][a-z]*s:*$/,/^Examples/s/^  \([^ ].*\)/\1/p')
    if [[ $previous == -* && $'\n'"$help" =~ [$'\n',]"$previous"[^\ ]*\ ([A-Z]+)\ \  ]]; then
        [[ ${BASH_REMATCH[1]} == FILE ]] && mapfile -t COMPREPLY < <(compgen -f -- "$current")
    elif [[ $current == -* ]]; then
        _dlock_words "$(sed -n 's/^\(-[^ ]*\) .*/\1/p' <<<"$help" | tr , '\n')"
    elif [[ $help == KEY* || $help == PREFIX* ]]; then
        _dlock_words "$(_dlock_keys "$dlock")"
    fi
}

complete -F _dlock dlock
