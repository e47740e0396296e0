#!/usr/bin/env bash
# Build an image if the engine does not have it yet, and print its tag on the last line.
#   images.sh [stage]      ratchet-stage:cpu-DIGEST and ratchet-stage:cpu (VARIANT=gpu builds with CUDA)
#   images.sh airflow      ratchet-airflow:cpu-DIGEST and ratchet-airflow:cpu, the team set-up's image
#   images.sh team         both, and PostgreSQL, Redis and S3 (docker/offline/servers.sh)
# DIGEST covers everything that goes into the image, so a tag never means two things.
set -euo pipefail
cd "$(dirname "$0")/.."
what=${1:-stage}
variant=${VARIANT:-cpu}
build=docker/.build
say() { echo "images: $*" >&2; }

[[ $what == stage || $what == airflow || $what == team ]] || { say "no image $what; allowed: stage, airflow, team"; exit 64; }
[[ $variant == cpu || $variant == gpu ]] || { say "VARIANT=$variant; allowed: cpu, gpu"; exit 64; }
command -v docker >/dev/null || { say "cannot build an image: there is no docker client"; exit 3; }
timeout 20 docker version --format '{{.Server.Version}}' >/dev/null 2>&1 || { say "cannot build an image: no Docker engine answers"; exit 3; }
mkdir -p "$build"

if [[ $what == team ]]; then
    servers=$(docker/offline/servers.sh)
    echo "$servers"
    # If no registry answered, do not wait for one again.
    [[ $servers != *": built from "* ]] || export RATCHET_PULL_WAIT=0
    "$0" stage & staging=$!
    "$0" airflow
    wait "$staging"
    exit 0
fi

# Builds read archives with fixed times and owners. The digest is that of the archive.
archive() { # FILE PATH...
    local file=$1
    shift
    tar --create --file "$file" --sort=name --mtime=2000-01-01 --owner=0 --group=0 --numeric-owner \
        --mode='u=rwX,go=rX' --exclude=__pycache__ --exclude='*.pyc' --exclude='*.egg-info' --exclude=build "$@"
}
digest() { sha256sum | cut -c1-12; }
build_from() { # CONTEXT_ARCHIVE ARGUMENT...: build without a network; print nothing unless it fails
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

base_tag=ratchet-base:$({ cat docker/offline/base.sh docker/offline/debian.sh; echo "${RATCHET_BASE_IMAGE:-}"; } | digest)

base() { has "$base_tag" || docker/offline/base.sh "$base_tag" >&2; }

# Build an image from the base and the packages of a lock file.
dependencies() { # TAG LOCK_FILE VARIANT FOLDER
    has "$1" && return 0
    local begin=$SECONDS
    say "building $1 from the packages in $2 (once; some minutes on a slow connection)"
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

# A checkout builds an image once at a time. A process that had to wait finds it built.
context=$(mktemp "$build/context.XXXXXX")
trap 'rm -f "$context"' EXIT
if [[ $what == stage ]]; then
    lock=docker/stage.txt
    sources=(docker/stage.Dockerfile docker/ratchet ratchet tasks)
else
    lock=docker/airflow.txt
    sources=(docker/airflow.Dockerfile docker/ratchet docker/with-secrets docker/stage.txt dags/*.py plugins ratchet tasks team)
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
if [[ $what == stage ]]; then # checkouts share the tag above; this file is ours alone
    mkdir -p .ratchet/images
    echo "$tag" >".ratchet/images/$variant"
fi
echo "$tag"
