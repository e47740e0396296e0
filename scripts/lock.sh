#!/usr/bin/env bash
# Resolve the lock files from their .in files. Those in docker/ keep the versions of requirements.txt.
set -euo pipefail
cd "$(dirname "$0")/.."
for name in requirements requirements-dev docker/stage docker/airflow; do
    echo "lock: $name.in -> $name.txt"
    # The pin of torch names the release alone; the platform decides on the wheel (CPU or CUDA). With the old pin in the
    # file uv would take the package index's wheel, which requires all of CUDA.
    touch "$name.txt"
    sed -i -E '/^torch==/d' "$name.txt"
    scripts/uv.sh pip compile --quiet --python-version 3.11 --no-emit-index-url --no-emit-find-links \
        --custom-compile-command "make lock" "$name.in" -o "$name.txt"
    sed -i -E 's/^torch==([0-9.]+)\+[a-z0-9]+/torch==\1/' "$name.txt"
done
