#!/bin/sh
# Start `weed` as the user seaweed, with its data on the volume at /data.
set -eu
if [ "$(id -u)" = 0 ]; then
    [ "$(stat -c %u /data)" = "$(id -u seaweed)" ] || chown -R seaweed:seaweed /data
    export HOME=/data
    exec setpriv --reuid=seaweed --regid=seaweed --init-groups "$0" "$@"
fi
if [ "${1:-}" = server ]; then
    shift
    # The caller's options come later, so they win.
    set -- server -dir=/data -volume.max=0 -master.volumePreallocate -master.volumeSizeLimitMB=1024 "$@"
fi
exec /usr/bin/weed -logtostderr=true "$@"
