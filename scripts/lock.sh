#!/usr/bin/env bash
# Resolve the three lock files from their .in files: requirements.txt, requirements-dev.txt, docker/stage.txt.
set -euo pipefail
cd "$(dirname "$0")/.."
links=$(python3 -m pip config get global.find-links 2>/dev/null || true)
export UV_FIND_LINKS="${UV_FIND_LINKS:-${PIP_FIND_LINKS:-$links}}"
uv=.venv/bin/uv
for name in requirements requirements-dev docker/stage; do
    echo "lock: $name.in -> $name.txt"
    "$uv" pip compile --quiet --python-version 3.11 --no-emit-index-url --no-emit-find-links \
        --custom-compile-command "make lock" "$name.in" -o "$name.txt"
    # The wheel that serves as torch is the platform's choice (CPU or CUDA); the pin names the release alone.
    sed -i -E 's/^torch==([0-9.]+)\+[a-z0-9]+/torch==\1/' "$name.txt"
done
