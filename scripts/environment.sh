#!/usr/bin/env bash
# Make .venv in the checkout, with every pinned package and `ratchet` itself; nothing happens if nothing has changed.
set -euo pipefail
cd "$(dirname "$0")/.."
stamp=.venv/.ratchet-stamp
say() { echo "environment: $*"; }
fail() {
    say "$*" >&2
    exit 1
}

want=$(sha256sum requirements.txt requirements-dev.txt pyproject.toml setup.py tasks/pyproject.toml scripts/environment.sh && pwd)
current() { [[ -x .venv/bin/ratchet && -x .venv/bin/python && $(cat "$stamp" 2>/dev/null) == "$want" ]]; }
if current; then
    exit 0
fi
mkdir -p .ratchet
exec 9>.ratchet/environment.lock
flock 9 # who waited finds it done
if current; then
    exit 0
fi

fits() { "$1" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 13))' 2>/dev/null; }
if ! { [[ -x .venv/bin/python ]] && fits .venv/bin/python && .venv/bin/python -m pip --version >/dev/null 2>&1; }; then
    python=
    for candidate in "${PYTHON:-python3}" python3.11 python3.12 /usr/bin/python3; do
        if command -v "$candidate" >/dev/null && fits "$candidate"; then
            python=$candidate
            break
        fi
    done
    [[ -n $python ]] || fail "needs Python 3.11 or 3.12; found $(python3 --version 2>&1 | head -n 1); install python3.11, or set PYTHON"
    "$python" -c 'import venv, ensurepip' 2>/dev/null ||
        fail "$python has no venv module; install it (Debian, Ubuntu: apt-get install python3-venv)"
    say "making .venv with $("$python" --version)"
    "$python" -m venv --clear .venv
fi
rm -f "$stamp"
[[ -x .venv/bin/uv ]] || .venv/bin/python -m pip install --quiet --disable-pip-version-check uv
say "installing the pinned packages"
scripts/uv.sh pip install --quiet --python .venv/bin/python -r requirements.txt -r requirements-dev.txt
# No isolation: the build needs no network then.
ours=(--editable . --editable ./tasks)
scripts/uv.sh pip install --quiet --python .venv/bin/python --no-deps --no-build-isolation "${ours[@]}" 2>/dev/null ||
    scripts/uv.sh pip install --quiet --python .venv/bin/python --no-deps "${ours[@]}"
# Packages of the checkout alone (local, demo, team, benchmarks) are found from any folder, too.
pwd >"$(.venv/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/ratchet-checkout.pth"
echo "$want" >"$stamp"
say "ready: .venv"
