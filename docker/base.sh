#!/usr/bin/env bash
# Make a base image with Python 3.11 as TAG: pulled where a registry answers, else put together from Debian's packages.
#   base.sh TAG
# RATCHET_BASE_IMAGE names an image to pull (or one that the engine has) instead of the usual one.
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
if docker image inspect "$usual" >/dev/null 2>&1 || timeout "$pull_wait" docker pull --quiet "$usual" >/dev/null 2>&1; then
    docker tag "$usual" "$tag"
    exit 0
fi

echo "base: no registry answers; making $tag from Debian's packages, about half a minute"
if ! command -v mmdebstrap >/dev/null; then
    if [[ $(id -u) != 0 ]] || ! command -v apt-get >/dev/null; then
        echo "base: needs mmdebstrap (apt-get install mmdebstrap), or RATCHET_BASE_IMAGE=an image with Python 3.11" >&2
        exit 1
    fi
    export DEBIAN_FRONTEND=noninteractive
    { apt-get update -qq && apt-get install -y -qq --no-install-recommends mmdebstrap debian-archive-keyring; } >/dev/null
fi
mkdir -p docker/.build
work=$(mktemp -d docker/.build/base.XXXXXX)
trap 'rm -rf "$work"' EXIT
mmdebstrap --quiet --variant=minbase --include=python3,python3-venv,ca-certificates,tzdata \
    --dpkgopt='path-exclude=/usr/share/man/*' \
    --dpkgopt='path-exclude=/usr/share/locale/*' \
    --dpkgopt='path-exclude=/usr/share/doc/*' \
    bookworm "$work/base.tar"
docker import "$work/base.tar" "$tag" >/dev/null
