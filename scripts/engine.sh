#!/usr/bin/env bash
# Provide a Docker engine: use the one that answers, or install and start Debian's.
#   engine.sh          exits 0 if an engine answers, 3 if there is none (stages then run as processes)
#   engine.sh stop     stops the engine that this script started, and no other
#   engine.sh release  does the same, unless a container runs on that engine
# With RATCHET_NO_ENGINE_INSTALL=1 the script installs and starts nothing. RATCHET_ENGINE_WAIT: seconds to wait for it (60).
set -euo pipefail
cd "$(dirname "$0")/.."
state=$PWD/.ratchet/engine
pidfile=$state/dockerd.pid
log=$state/dockerd.log
wait_s=${RATCHET_ENGINE_WAIT:-60}
run=${RATCHET_ENGINE_RUN:-/var/run} # where dockerd keeps its socket and its pid files

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

# Print the pid of the engine that this script started, if it still runs: its start time has to match the recorded one.
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
        say "this checkout started none"
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
        why="it does not report its containers"
    elif [[ -n $running ]]; then
        why="$(wc -l <<<"$running") container(s) run on it"
    else
        stop
        return 0
    fi
    say "keeps running: $why; to stop it anyway, run scripts/engine.sh stop"
}

# A killed engine leaves its pid files. A new engine does not start if such a pid is that of a zombie or another program.
remove_stale_pids() {
    local file pid
    for file in "$run/docker.pid" "$run/docker/containerd/containerd.pid"; do
        pid=$(cat "$file" 2>/dev/null) || continue
        [[ -n $(started_at "$pid") && $(cat "/proc/$pid/comm" 2>/dev/null) =~ ^(dockerd|containerd)$ ]] || rm -f "$file"
    done
}

install() {
    [[ $(id -u) == 0 ]] || none "no Docker engine answers, and only root can install one"
    command -v apt-get >/dev/null || none "no Docker engine answers, and this is neither Debian nor Ubuntu"
    say "installing docker.io with apt-get (about a minute)"
    export DEBIAN_FRONTEND=noninteractive
    local out=$state/apt.log
    # Without an init system policy-rc.d answers 101, so the package does not start its service.
    { apt-get update -qq && apt-get install -y -qq --no-install-recommends docker.io iptables ca-certificates; } \
        >"$out" 2>&1 </dev/null || none "apt-get could not install docker.io (log: $out; last: $(tail -n 1 "$out"))"
}

close_all() { # every file that this process has open, but for the standard ones
    local fd
    for fd in /proc/"$BASHPID"/fd/*; do
        fd=${fd##*/}
        ((fd <= 2)) || eval "exec $fd>&-"
    done
}

start() {
    command -v dockerd >/dev/null || install
    answers && return 0 # a package may have started its service
    [[ $(id -u) == 0 ]] || none "no Docker engine answers, and only root can start one"
    remove_stale_pids
    say "starting dockerd in the background (log: $log)"
    # The engine must not inherit our lock, nor that of a caller (`flock FILE make engine`): it would hold it as it runs.
    { close_all; exec setsid dockerd --log-level=warn; } >"$log" 2>&1 </dev/null &
    local pid=$!
    echo "$pid $(started_at "$pid")" >"$pidfile"
    disown
    local deadline=$((SECONDS + wait_s))
    until answers; do
        [[ -n $(ours) ]] || none "dockerd exited during its start (log: $log; last: $(tail -n 1 "$log"))"
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
