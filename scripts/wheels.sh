#!/usr/bin/env bash
# Build both wheels into dist/: ratchet (the library and Airflow's plugin) and ratchet-stages (what runs in containers).
set -euo pipefail
cd "$(dirname "$0")/.."
out=${1:-dist}
for project in . tasks; do
    scripts/uv.sh build --quiet --wheel --no-build-isolation --python .venv/bin/python -o "$out" "$project"
done
rm -rf build tasks/build
ls "$out"/*.whl
