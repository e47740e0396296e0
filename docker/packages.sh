#!/usr/bin/env bash
# Unpack the wheels that a lock file pins into a folder. An image build copies the folder and needs no network.
#   packages.sh LOCK_FILE VARIANT FOLDER     VARIANT is the build of torch: cpu or gpu
# The wheels are unpacked outside the image for two reasons: uv shares its cache with .venv there, and an image that
# copies wheels and installs them contains both. They are copies: tar ends with an error when another checkout links a
# file of the cache while it reads that file.
set -euo pipefail
cd "$(dirname "$0")/.."
lock=$1 variant=$2 folder=$3
case $(uname -m) in
x86_64) platform=x86_64-manylinux_2_36 ;;
aarch64) platform=aarch64-manylinux_2_36 ;;
*) platform=linux ;;
esac

want=$(cat "$lock" "$0" - <<<"$variant $platform" | sha256sum | cut -d' ' -f1)
if [[ -f $folder.stamp && $(cat "$folder.stamp") == "$want" ]]; then
    exit 0
fi
rm -rf "$folder" "$folder.stamp"
mkdir -p "$(dirname "$folder")"
install=(scripts/uv.sh pip install --quiet --target "$folder" --python .venv/bin/python --python-version 3.11
    --python-platform "$platform" --link-mode copy)
if [[ $variant == gpu ]]; then
    # The package index has the CUDA build, which requires the CUDA libraries.
    UV_FIND_LINKS='' "${install[@]}" -r "$lock"
else
    "${install[@]}" --no-deps -r "$lock"
    if ! [[ $(cat "$folder"/torch-*.dist-info/METADATA 2>/dev/null) =~ Version:\ [0-9.]+\+cpu ]]; then
        "${install[@]}" -r "$lock" # no CPU build is in reach: install the usual build and its dependencies
    fi
fi

# Remove what no stage reads: headers, static libraries, test suites.
rm -rf "$folder"/torch/{include,test,share} "$folder"/pyarrow/{include,src,tests} "$folder"/pandas/tests "$folder"/matplotlib/tests
find "$folder" \( -path "$folder/scipy/*/tests" -o -path "$folder/networkx/*/tests" -o -path "$folder/sympy/*/tests" \) \
    -prune -exec rm -rf {} +
find "$folder" \( -name '*.a' -o -name '*.pyi' \) -delete
# Programs start with the interpreter in the image.
if [[ -d $folder/bin ]]; then
    grep -lIr '^#!.*python' "$folder/bin" | xargs -r sed -i '1s|.*|#!/opt/ratchet/bin/python|'
fi
if [[ $(.venv/bin/python -c 'import sys; print(*sys.version_info[:2])') == "3 11" ]]; then
    .venv/bin/python -m compileall -q -j 0 "$folder" >/dev/null || true # the image build compiles the rest
fi
echo "$want" >"$folder.stamp"
