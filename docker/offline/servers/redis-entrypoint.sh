#!/bin/sh
# Start Redis as the user redis, on the volume at /data.
set -eu
case ${1:-} in
-* | *.conf) set -- redis-server "$@" ;;
esac
if [ "${1:-}" = redis-server ] && [ "$(id -u)" = 0 ]; then
    find . \! -user redis -exec chown redis '{}' +
    export HOME=/data
    exec setpriv --reuid=redis --regid=redis --init-groups "$0" "$@"
fi
[ "$(umask)" != 0022 ] || umask 0077
exec "$@"
