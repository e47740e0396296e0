#!/usr/bin/env bash
# Build an image from Debian 12 and some of its packages, with security updates. It asks no registry.
#   debian.sh TAG PACKAGE...
set -euo pipefail
cd "$(dirname "$0")/../.."
tag=$1
shift
if ! command -v mmdebstrap >/dev/null; then
    if [[ $(id -u) != 0 ]] || ! command -v apt-get >/dev/null; then
        echo "debian: mmdebstrap is missing; install it (apt-get install mmdebstrap), or connect to a registry" >&2
        exit 1
    fi
    export DEBIAN_FRONTEND=noninteractive
    { apt-get update -qq && apt-get install -y -qq --no-install-recommends mmdebstrap debian-archive-keyring; } >/dev/null
fi
mkdir -p docker/.build
work=$(mktemp -d docker/.build/debian.XXXXXX)
trap 'rm -rf "$work"' EXIT
packages=$*
mmdebstrap --quiet --variant=minbase --include="${packages// /,}" \
    --dpkgopt='path-exclude=/usr/share/man/*' \
    --dpkgopt='path-exclude=/usr/share/locale/*' \
    --dpkgopt='path-exclude=/usr/share/doc/*' \
    bookworm "$work/image.tar"
docker import "$work/image.tar" "$tag" >/dev/null
