#!/usr/bin/env bash
# Provide a base image with Python 3.11 as TAG: pull it, or build it from Debian's packages if no registry answers.
#   base.sh TAG
# RATCHET_BASE_IMAGE names another image to use: one that the engine has, or one to pull.
# RATCHET_PULL_WAIT=0 asks no registry.
set -euo pipefail
cd "$(dirname "$0")/../.."
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
echo "base: no registry answers; building $tag from Debian's packages (about half a minute)"
docker/offline/debian.sh "$tag" python3 python3-venv ca-certificates tzdata
