#!/bin/sh
# Runs the link command that follows with static archives in place of shared libraries that have one beside them.
# A command that loads ten libraries spends more time on that than on its lock.
for word do
    shift
    case $word in
        /*.so | /*.so.*)
            archive=${word%.so*}.a
            [ -f "$archive" ] && word=$archive
            ;;
    esac
    set -- "$@" "$word"
done
exec "$@"
