#!/usr/bin/env bash
# Every check that needs no test: format, lint, types, layers, and each pipeline in dags/pipelines.
set -uo pipefail
cd "$(dirname "$0")/.."
bin=.venv/bin
failed=()
step() {
    local name=$1 start=$SECONDS
    shift
    if output=$("$@" 2>&1); then
        echo "check: $name: fine ($((SECONDS - start)) s)"
    else
        echo "$output"
        echo "check: $name: FAILED"
        failed+=("$name")
    fi
}
pipelines() {
    for file in dags/pipelines/*/pipeline.yaml tests/real/*/pipeline.yaml; do
        [ ! -e "$file" ] || "$bin/ratchet" check "$file" || return 1
    done
}
step format "$bin/ruff" format --check .
step lint "$bin/ruff" check .
step types "$bin/mypy"
step layers "$bin/lint-imports"
step shape "$bin/python" scripts/shape.py
step pipelines pipelines
[ ${#failed[@]} -eq 0 ] || { echo "check: failed: ${failed[*]}"; exit 1; }
