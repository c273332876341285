#!/usr/bin/env bash
# A client made of bash and socat: socat-client.sh PATH COMMAND [ARGUMENT...]
#
# At a notice it runs COMMAND, which leaves a durable checkpoint at PATH and prints its step. Ends
# with 143 once that is on record, and with 1 when the agent is gone; goes on after an advice, a
# drill or a withdrawn notice. What is said here and why: docs/reference/protocol.md
path=${1:?needs a path and a command}
shift
handled=" "
leaving=

coproc agent { exec socat - "UNIX-CONNECT:${LASTCALL_SOCKET:-/run/lastcall/agent.sock}"; }

trap '' PIPE # the end of the agent is seen below
say() { { printf '%s\n' "$1" >&"${agent[1]}"; } 2>/dev/null; }

flush() {
    [[ $1 =~ \"id\":\"([^\"]*)\" ]] || return
    local id=${BASH_REMATCH[1]} step
    [[ $handled == *" $id "* ]] && return # the same notice again: something in it changed
    handled+="$id "
    say "{\"type\":\"ack\",\"id\":\"$id\"}"
    say "{\"type\":\"intent\",\"id\":\"$id\",\"will\":\"save\"}"
    if step=$("${@:2}"); then
        say "{\"type\":\"flushed\",\"id\":\"$id\",\"path\":\"$path\",\"step\":$step}"
    else
        say "{\"type\":\"failed\",\"id\":\"$id\",\"reason\":\"exit code $?\"}"
    fi
    [[ $1 == *'"urgency":"soon"'* || $1 == *'"drill":true'* ]] || leaving=$id
}

say '{"type":"hello","protocol":[1,1],"job":"socat"}'
while read -r line <&"${agent[0]}"; do
    case $line in
        *'"type":"welcome"'*) # with the notices that are open
            while read -r notice; do
                flush "$notice" "$@"
            done < <(grep -o '{[^{}]*"budget_seconds"[^{}]*}' <<<"$line")
            ;;
        *'"type":"notice"'*) flush "$line" "$@" ;;
        *'"type":"withdrawn"'*) [[ $line == *"\"$leaving\""* ]] && leaving= ;;
        *'"type":"ok"'*) [[ $leaving && $line == *"\"$leaving\""* ]] && exit 143 ;;
        *'"type":"error"'*) echo "$line" >&2 ;;
    esac
done
echo "the agent is gone" >&2
exit 1
