#!/usr/bin/env bash
# Make Docker Compose answer: `docker compose` or docker-compose where one is there, else Debian's package.
set -euo pipefail
if docker compose version >/dev/null 2>&1 || docker-compose version >/dev/null 2>&1; then
    exit 0
fi
if [[ $(id -u) != 0 ]] || ! command -v apt-get >/dev/null; then
    echo "compose: neither 'docker compose' nor docker-compose is there; install one of them" >&2
    exit 64
fi
echo "compose: installing docker-compose with apt-get"
export DEBIAN_FRONTEND=noninteractive
{ apt-get update -qq && apt-get install -y -qq --no-install-recommends docker-compose; } >/dev/null
