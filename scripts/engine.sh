#!/usr/bin/env bash
# Make a Docker engine answer: the one that is there, or one installed and started from Debian's packages.
#   engine.sh          exits 0 if an engine answers, 3 if there is none and stages will run as processes
#   engine.sh stop     ends the engine that this script started, and only that
#   engine.sh release  the same, unless a container runs on it
# RATCHET_NO_ENGINE_INSTALL=1 keeps it from installing or starting anything.
set -euo pipefail
cd "$(dirname "$0")/.."
state=$PWD/.ratchet/engine
pidfile=$state/dockerd.pid
log=$state/dockerd.log
wait_s=${RATCHET_ENGINE_WAIT:-60}
run=${RATCHET_ENGINE_RUN:-/var/run} # where dockerd keeps its socket and its notes

say() { echo "engine: $*"; }
none() {
    say "$*; stages run as processes"
    exit 3
}

answers() {
    if [[ -z ${DOCKER_HOST:-} && -S $run/docker.sock ]] && command -v curl >/dev/null; then
        [[ $(curl -s -m 5 --unix-socket "$run/docker.sock" http://engine/_ping) == OK ]]
    elif command -v docker >/dev/null; then
        timeout 10 docker version --format '{{.Server.Version}}' >/dev/null 2>&1
    else
        PATH="$PWD/.venv/bin:$PATH" timeout 20 python3 -c 'import docker; docker.from_env(timeout=5).ping()' >/dev/null 2>&1
    fi
}

# The engine that this script started, if it lives: its pid, checked against the start time noted beside it.
ours() {
    local pid started
    read -r pid started 2>/dev/null <"$pidfile" || return 1
    [[ -n $started && $(started_at "$pid") == "$started" ]] && echo "$pid"
}
started_at() { sed 's/.*) //' "/proc/$1/stat" 2>/dev/null | awk '$1 != "Z" {print $20}' || true; }

stop() {
    local pid
    pid=$(ours) || {
        rm -f "$pidfile"
        say "none was started here"
        return 0
    }
    kill -TERM "$pid"
    for _ in $(seq 300); do
        [[ -n $(ours) ]] || break
        sleep 0.1
    done
    [[ -z $(ours) ]] || kill -KILL "$pid" 2>/dev/null || true
    rm -f "$pidfile"
    say "stopped"
}

release() {
    local running why
    ours >/dev/null || return 0
    if ! running=$(timeout 10 docker --host "unix://$run/docker.sock" ps --quiet 2>/dev/null); then
        why="it does not say whether containers run on it"
    elif [[ -n $running ]]; then
        why="$(wc -l <<<"$running") container(s) run on it"
    else
        stop
        return 0
    fi
    say "stays, as $why; \`scripts/engine.sh stop\` ends it all the same"
}

# An engine that was killed leaves the numbers of its processes behind. One that still waits to be reaped, or that some
# other program took over, counts as alive, and a new engine would not start.
forget_the_dead() {
    local file pid
    for file in "$run/docker.pid" "$run/docker/containerd/containerd.pid"; do
        pid=$(cat "$file" 2>/dev/null) || continue
        [[ -n $(started_at "$pid") && $(cat "/proc/$pid/comm" 2>/dev/null) =~ ^(dockerd|containerd)$ ]] || rm -f "$file"
    done
}

install() {
    [[ $(id -u) == 0 ]] || none "no Docker engine answers, and only root can install one"
    command -v apt-get >/dev/null || none "no Docker engine answers, and this is neither Debian nor Ubuntu"
    say "installing docker.io with apt-get, about a minute"
    export DEBIAN_FRONTEND=noninteractive
    local out=$state/apt.log
    # policy-rc.d's 101 keeps the package from starting its own service where there is no init to keep it.
    { apt-get update -qq && apt-get install -y -qq --no-install-recommends docker.io iptables ca-certificates; } \
        >"$out" 2>&1 </dev/null || none "apt-get could not install docker.io (log: $out; last: $(tail -n 1 "$out"))"
}

start() {
    command -v dockerd >/dev/null || install
    answers && return 0 # a package may have started its service
    [[ $(id -u) == 0 ]] || none "no Docker engine answers, and only root can start one"
    forget_the_dead
    say "starting dockerd in the background (log: $log)"
    # The lock must not be inherited: it would be held for as long as the engine lives.
    setsid dockerd --log-level=warn >"$log" 2>&1 </dev/null 9>&- &
    local pid=$!
    echo "$pid $(started_at "$pid")" >"$pidfile"
    disown
    local deadline=$((SECONDS + wait_s))
    until answers; do
        [[ -n $(ours) ]] || none "dockerd ended at once (log: $log; last: $(tail -n 1 "$log"))"
        ((SECONDS < deadline)) || none "dockerd did not answer within $wait_s s (log: $log; last: $(tail -n 1 "$log"))"
        sleep 0.2
    done
}

mkdir -p "$state"
if [[ ${1:-} == stop || ${1:-} == release ]]; then
    exec 9>"$state/lock" && flock 9
    "$1"
    exit 0
fi
if answers; then
    say "answers"
    exit 0
fi
[[ ${RATCHET_NO_ENGINE_INSTALL:-} != 1 ]] || none "no Docker engine answers, and RATCHET_NO_ENGINE_INSTALL=1"
[[ -z ${DOCKER_HOST:-} ]] || none "the engine that DOCKER_HOST names does not answer"
exec 9>"$state/lock" && flock 9
if ! answers; then
    start
fi
say "answers"
