#!/usr/bin/env bash
# Resolve the lock files from their .in files; those in docker/ keep the versions of requirements.txt.
set -euo pipefail
cd "$(dirname "$0")/.."
for name in requirements requirements-dev docker/stage docker/airflow; do
    echo "lock: $name.in -> $name.txt"
    # The wheel that serves as torch is the platform's choice (CPU or CUDA); the pin names the release alone. Without
    # the old pin uv would take the registry's wheel for it, and with that all of CUDA.
    touch "$name.txt"
    sed -i -E '/^torch==/d' "$name.txt"
    scripts/uv.sh pip compile --quiet --python-version 3.11 --no-emit-index-url --no-emit-find-links \
        --custom-compile-command "make lock" "$name.in" -o "$name.txt"
    sed -i -E 's/^torch==([0-9.]+)\+[a-z0-9]+/torch==\1/' "$name.txt"
done
