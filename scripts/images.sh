#!/usr/bin/env bash
# Build an image if the engine does not have it yet; its tag is the last line printed.
#   images.sh [stage]      ratchet-stage:cpu-DIGEST, also named ratchet-stage:cpu (VARIANT=gpu: the CUDA build)
#   images.sh airflow      ratchet-airflow:cpu-DIGEST, also named ratchet-airflow:cpu: the team set-up's own image
#   images.sh team         all that the team set-up runs: the two above, and PostgreSQL, Redis and S3 (docker/servers.sh)
# DIGEST is taken over everything that goes in, so a tag never means two things.
set -euo pipefail
cd "$(dirname "$0")/.."
what=${1:-stage}
variant=${VARIANT:-cpu}
build=docker/.build
say() { echo "images: $*" >&2; }

[[ $what == stage || $what == airflow || $what == team ]] || { say "no image $what; allowed: stage, airflow, team"; exit 64; }
[[ $variant == cpu || $variant == gpu ]] || { say "VARIANT=$variant; allowed: cpu, gpu"; exit 64; }
command -v docker >/dev/null || { say "there is no docker client, so no image is built"; exit 3; }
timeout 20 docker version --format '{{.Server.Version}}' >/dev/null 2>&1 || { say "no Docker engine answers, so no image is built"; exit 3; }
mkdir -p "$build"

if [[ $what == team ]]; then
    servers=$(docker/servers.sh)
    echo "$servers"
    # A registry that did not answer just now is not waited for again.
    [[ $servers != *": made of "* ]] || export RATCHET_PULL_WAIT=0
    "$0" stage & staging=$!
    "$0" airflow
    wait "$staging"
    exit 0
fi

# Everything is built from archives with fixed times and owners: what is digested is what is built.
archive() { # FILE PATH...
    local file=$1
    shift
    tar --create --file "$file" --sort=name --mtime=2000-01-01 --owner=0 --group=0 --numeric-owner \
        --mode='u=rwX,go=rX' --exclude=__pycache__ --exclude='*.pyc' --exclude='*.egg-info' --exclude=build "$@"
}
digest() { sha256sum | cut -c1-12; }
build_from() { # CONTEXT_ARCHIVE ARGUMENT...: without network, and quiet unless it fails
    local errors
    errors=$(mktemp "$build/errors.XXXXXX")
    if ! docker build --quiet --network none "${@:2}" - <"$1" >/dev/null 2>"$errors"; then
        cat "$errors" >&2
        rm -f "$errors"
        return 1
    fi
    rm -f "$errors"
}
has() { docker image inspect "$1" >/dev/null 2>&1; }

base_tag=ratchet-base:$({ cat docker/base.sh docker/debian.sh; echo "${RATCHET_BASE_IMAGE:-}"; } | digest)

base() { has "$base_tag" || docker/base.sh "$base_tag" >&2; }

# An image of the base and the packages of a lock file.
dependencies() { # TAG LOCK_FILE VARIANT FOLDER
    has "$1" && return 0
    local begin=$SECONDS
    say "building $1 from the packages of $2: some minutes on a slow line, and only once"
    base &
    local making=$!
    docker/packages.sh "$2" "$3" "$4"
    wait "$making"
    tar --create --owner=0 --group=0 --numeric-owner \
        --transform="s|^$4|packages|" --transform='s|^docker/dependencies.Dockerfile|Dockerfile|' \
        "$4" docker/dependencies.Dockerfile |
        build_from /dev/stdin --build-arg "BASE=$base_tag" --tag "$1"
    say "built $1 in $((SECONDS - begin)) s, $(size "$1")"
}
size() { docker image inspect --format '{{.Size}}' "$1" | awk '{printf "%.1f GB", $1 / 1e9}'; }

# One build of an image at a time in a checkout; who waited finds it done.
context=$(mktemp "$build/context.XXXXXX")
trap 'rm -f "$context"' EXIT
if [[ $what == stage ]]; then
    lock=docker/stage.txt
    sources=(docker/stage.Dockerfile docker/ratchet ratchet tasks)
else
    lock=docker/airflow.txt
    sources=(docker/airflow.Dockerfile docker/ratchet docker/with-secrets docker/stage.txt dags plugins ratchet tasks team)
fi
dependencies_tag=ratchet-$what-base:$variant-$(
    { echo "$base_tag" && cat docker/packages.sh docker/dependencies.Dockerfile "$lock"; } | digest
)
archive "$context" pyproject.toml "${sources[@]}"
tag=ratchet-$what:$variant-$({ echo "$dependencies_tag" && cat "$context"; } | digest)
if ! has "$tag"; then
    exec 9>"$build/$what.lock" && flock 9
    if ! has "$tag"; then
        dependencies "$dependencies_tag" "$lock" "$variant" "$build/packages-$what-$variant"
        build_from "$context" --file "docker/$what.Dockerfile" --build-arg "VARIANT=$variant" \
            --build-arg "DEPENDENCIES=$dependencies_tag" --tag "$tag"
        say "built $tag, $(size "$tag")"
    fi
fi
docker tag "$tag" "ratchet-$what:$variant"
if [[ $what == stage ]]; then # the tag above is every checkout's; this one is ours
    mkdir -p .ratchet/images
    echo "$tag" >".ratchet/images/$variant"
fi
echo "$tag"
