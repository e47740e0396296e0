#!/usr/bin/env bash
# Provide Docker Compose: use `docker compose` or docker-compose, or install Debian's package.
set -euo pipefail
if docker compose version >/dev/null 2>&1 || docker-compose version >/dev/null 2>&1; then
    exit 0
fi
if [[ $(id -u) != 0 ]] || ! command -v apt-get >/dev/null; then
    echo "compose: found neither 'docker compose' nor docker-compose; install one of them" >&2
    exit 64
fi
echo "compose: installing docker-compose with apt-get"
export DEBIAN_FRONTEND=noninteractive
{ apt-get update -qq && apt-get install -y -qq --no-install-recommends docker-compose; } >/dev/null
