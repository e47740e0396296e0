#!/usr/bin/env bash
# Run the environment's uv with pip's configuration (find-links, index, certificates), which uv does not read.
# An empty UV_FIND_LINKS stays empty.
set -euo pipefail
bin=$(cd "$(dirname "$0")/.." && pwd)/.venv/bin
configured() { "$bin/python" -m pip config get "global.$1" 2>/dev/null | tr '\n' ' ' | sed 's/ *$//' || true; }
if [[ -z ${UV_FIND_LINKS+set} ]]; then
    export UV_FIND_LINKS=${PIP_FIND_LINKS:-$(configured find-links)}
    UV_FIND_LINKS=${UV_FIND_LINKS// /,}
fi
[[ -n $UV_FIND_LINKS ]] || unset UV_FIND_LINKS
if [[ -z ${UV_DEFAULT_INDEX:-}${UV_INDEX_URL:-} ]]; then
    index=${PIP_INDEX_URL:-$(configured index-url)}
    [[ -z $index ]] || export UV_DEFAULT_INDEX=$index
fi
if [[ -z ${SSL_CERT_FILE:-} ]]; then
    certificates=${PIP_CERT:-$(configured cert)}
    [[ -z $certificates ]] || export SSL_CERT_FILE=$certificates
fi
exec "$bin/uv" "$@"
