#!/usr/bin/env bash
# Tests, in parallel.
#   test.sh         all that are not marked slow, with coverage: contracts in full, the rest at 90 % or more
#   test.sh slow    those that are: outages of a whole Airflow, its alerts, and the team set-up
# What tests drive beside Python (a browser, strace) is installed where that is possible; else those tests are skipped.
set -euo pipefail
cd "$(dirname "$0")/.."
suite=${1:-}
[[ -z $suite || $suite == slow ]] || { echo "test: no suite $suite; allowed: slow, or nothing" >&2; exit 64; }
bin=.venv/bin
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
run_tests() { "$bin/python" -m pytest --dist loadgroup --durations=25 -rfEs "$@"; }
if [[ $suite == slow ]]; then
    run_tests -n "${WORKERS:-3}" -m slow  # each worker starts an Airflow or a whole stack: a fourth only holds them up
    exit
fi
rm -f .coverage .coverage.*
run_tests -n "${WORKERS:-4}" -m "not slow" --cov --cov-report=
"$bin/coverage" report --include='tasks/contracts/*' --fail-under=100
"$bin/coverage" report --omit='tasks/contracts/*' --fail-under=90
