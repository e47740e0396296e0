#!/usr/bin/env bash
# Every test, in parallel, with coverage: contracts in full, the rest at 90 % or more.
set -euo pipefail
cd "$(dirname "$0")/.."
bin=.venv/bin
workers=${WORKERS:-3}
rm -f .coverage .coverage.*
"$bin/python" -m pytest -n "$workers" --dist loadgroup --cov --cov-report= "$@"
"$bin/coverage" combine --quiet --append 2>/dev/null || true
"$bin/coverage" report --include='tasks/contracts/*' --fail-under=100
"$bin/coverage" report --omit='tasks/contracts/*' --fail-under=90
