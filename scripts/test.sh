#!/usr/bin/env bash
# Every test, in parallel, with coverage: contracts in full, the rest at 90 % or more.
# What tests drive beside Python (a browser, strace) is installed where that is possible; else those tests are skipped.
set -euo pipefail
cd "$(dirname "$0")/.."
bin=.venv/bin
workers=${WORKERS:-4}
wanted=()
for tool in chromium strace; do
    command -v "$tool" >/dev/null || wanted+=("$tool")
done
if [ ${#wanted[@]} -gt 0 ] && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    echo "test: installing ${wanted[*]} from the system's packages"
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${wanted[@]}" >/dev/null
fi
# On a person's machine a test of what is not there is skipped, and named at the end. Root in CI has to have it all.
if [ "${CI:-}" = true ] && [ "$(id -u)" = 0 ]; then
    for tool in chromium strace; do
        command -v "$tool" >/dev/null || { echo "test: CI needs $tool"; exit 1; }
    done
    place=$(mktemp -d)
    mount -t tmpfs -o size=64k tmpfs "$place" && umount "$place" || { echo "test: CI needs the right to mount a tmpfs"; exit 1; }
    rmdir "$place"
fi
scripts/compose.sh || echo "test: without Docker Compose the team set-up is not tested"
rm -f .coverage .coverage.*
"$bin/python" -m pytest -n "$workers" --dist loadgroup --cov --cov-report= --durations=25 -rs "$@"
"$bin/coverage" report --include='tasks/contracts/*' --fail-under=100
"$bin/coverage" report --omit='tasks/contracts/*' --fail-under=90
