#!/usr/bin/env bash
# Make a base image with Python 3.11 as TAG: pulled where a registry answers, else put together from Debian's packages.
#   base.sh TAG
# RATCHET_BASE_IMAGE names an image to pull (or one that the engine has) instead of the usual one.
# RATCHET_PULL_WAIT=0: no registry is asked.
set -euo pipefail
cd "$(dirname "$0")/.."
tag=$1
pull_wait=${RATCHET_PULL_WAIT:-30} # seconds; Debian's packages take about as long

if [[ -n ${RATCHET_BASE_IMAGE:-} ]]; then
    docker image inspect "$RATCHET_BASE_IMAGE" >/dev/null 2>&1 || docker pull --quiet "$RATCHET_BASE_IMAGE"
    docker tag "$RATCHET_BASE_IMAGE" "$tag"
    exit 0
fi
usual=python:3.11-slim-bookworm
pull() { [[ $pull_wait != 0 ]] && timeout "$pull_wait" docker pull --quiet "$usual" >/dev/null 2>&1; }
if docker image inspect "$usual" >/dev/null 2>&1 || pull; then
    docker tag "$usual" "$tag"
    exit 0
fi
echo "base: no registry answers; making $tag from Debian's packages, about half a minute"
docker/debian.sh "$tag" python3 python3-venv ca-certificates tzdata
