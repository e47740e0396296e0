#!/usr/bin/env bash
# Tests, in parallel.
#   test.sh fast     tests that need no engine, no Airflow and no server: the inner loop
#   test.sh          every check, then all tests but those of the team set-up, with coverage: contracts in full, the rest
#                    at 90 % or more
#   test.sh stack    the tests of the team set-up, which start it and need its images
# The script installs what tests drive beside Python (a browser, strace) where it can; else those tests are skipped.
set -euo pipefail
cd "$(dirname "$0")/.."
suite=${1:-}
[[ -z $suite || $suite == fast || $suite == stack ]] || {
    echo "test: no suite $suite; allowed: fast, stack, or nothing" >&2
    exit 64
}
bin=.venv/bin
# Many processes share few cores here: a thread that waits by spinning holds the core that another one needs.
export OMP_WAIT_POLICY=PASSIVE OPENBLAS_THREAD_TIMEOUT=4
measured=()
run_tests() { "$bin/python" "${measured[@]}" -m pytest --dist loadgroup --durations=25 -rfEs "$@"; }
if [[ $suite == fast ]]; then
    run_tests -n "${WORKERS:-$(nproc)}" \
        -m "not docker and not airflow and not stack and not browser and not server and not heavy"
    exit
fi
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
if [[ $suite == stack ]]; then
    run_tests -n "${WORKERS:-2}" -m stack
    exit
fi
rm -f .coverage.*.json
measured=(-m slipcover --json --out .coverage.suite.json)
if [ ! -d tests/__pycache__ ]; then
    # A new checkout. Each worker would compile what all of them import; one process does it, while types are checked.
    run_tests -n 0 --collect-only -m "not stack" >/dev/null 2>&1 &
fi
scripts/check.sh
wait
run_tests -n "${WORKERS:-4}" -m "not stack"
"$bin/python" scripts/covered.py .coverage.*.json
