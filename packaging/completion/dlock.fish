# SPDX-License-Identifier: Apache-2.0
# fish completion for dlock. What it offers is read from the help of the command itself.

# __dlock_rows SECTION VERB...: the names in a section of the help, each with a tab and what it does.
function __dlock_rows
    dlock $argv[2..] --help 2>/dev/null | awk -v section="^$argv[1]" '
        $0 ~ section { on = 1; next }
        /^$/ { on = 0 }
        on && /^  [^ ]/ {
            what = $0
            sub(/^  [^ ]+( [A-Z]+)?  +/, "", what)
            count = split($1, names, ",")
            for (i = 1; i <= count; ++i) print names[i] "\t" what
        }'
end

# The verb on the line so far, or nothing.
function __dlock_verb
    set -l verbs (__dlock_rows Verbs | string replace -r '\t.*' '')
    for word in (commandline -opc)[2..]
        if contains -- $word $verbs
            echo $word
            return
        end
    end
end

# What the option before the cursor wants: FILE, DURATION, ..., or nothing.
function __dlock_value
    set -l option (commandline -opc)[-1]
    string match -q -- '-*' $option; or return
    dlock $argv --help 2>/dev/null | awk -v option=$option '
        index("," $1 ",", "," option ",") && $2 ~ /^[A-Z]+$/ { print $2; exit }'
end

function __dlock_complete
    set -l words (commandline -opc)
    set -l at (contains -i -- -- $words)
    if test -n "$at"  # what run runs
        complete -C (string join ' ' -- (string escape -- $words[(math $at + 1)..] (commandline -ct)))
        return
    end
    set -l verb (__dlock_verb)
    if test -z "$verb"
        test "$words[-1]" = --store; or __dlock_rows Verbs
        return
    end
    set -l value (__dlock_value $verb)
    if test -n "$value"
        test $value = FILE; and __fish_complete_path (commandline -ct)
    else if string match -q -- '-*' (commandline -ct)
        __dlock_rows Options $verb
    else if __dlock_rows Positionals $verb | string match -qr '^(KEY|PREFIX)'
        timeout 2 dlock list --json --local </dev/null 2>/dev/null | grep -oE '"key":"[^"\\\\]*"' | cut -d'"' -f4
    end
end

complete -c dlock -f -a '(__dlock_complete)'
