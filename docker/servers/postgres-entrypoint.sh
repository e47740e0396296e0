#!/usr/bin/env bash
# Start PostgreSQL as the user postgres, and make its cluster first if the volume has none.
#   POSTGRES_PASSWORD or POSTGRES_PASSWORD_FILE   the first user's password; needed at the first start
#   POSTGRES_USER, POSTGRES_DB                    the first user (postgres) and database (the user's name); also *_FILE
#   POSTGRES_INITDB_ARGS                          more options of initdb
#   /docker-entrypoint-initdb.d/*.sh *.sql        run in order of their names, at the first start only
set -Eeuo pipefail

from_file() { # NAME DEFAULT: NAME's value, or the content of the file that NAME_FILE names
    local name=$1 file=$1_FILE
    if [[ -n ${!name:-} && -n ${!file:-} ]]; then
        echo "postgres: both $name and $file are set; set one" >&2
        exit 1
    fi
    local value=${!name:-$2}
    [[ -z ${!file:-} ]] || value=$(<"${!file}")
    export "$name=$value"
    unset "$file"
}

first_start() {
    if [[ -z $POSTGRES_PASSWORD ]]; then
        echo "postgres: the first start needs a password: set POSTGRES_PASSWORD_FILE" >&2
        exit 1
    fi
    eval "initdb --username=\"\$POSTGRES_USER\" --pwfile=<(printf '%s\n' \"\$POSTGRES_PASSWORD\") ${POSTGRES_INITDB_ARGS:-}"
    printf '\nhost all all all scram-sha-256\n' >>"$PGDATA/pg_hba.conf"
    # Nobody outside can connect before all is set up.
    PGUSER=$POSTGRES_USER pg_ctl -D "$PGDATA" -o "-c listen_addresses='' -p 5432" -w start
    local psql=(psql -v ON_ERROR_STOP=1 --no-password --no-psqlrc --username "$POSTGRES_USER")
    if [[ $POSTGRES_DB != postgres ]]; then
        "${psql[@]}" --dbname postgres --set db="$POSTGRES_DB" <<<'CREATE DATABASE :"db";'
    fi
    psql+=(--dbname "$POSTGRES_DB")
    local file
    for file in /docker-entrypoint-initdb.d/*; do
        case $file in
        *.sh) if [[ -x $file ]]; then "$file"; else . "$file"; fi ;;
        *.sql) "${psql[@]}" -f "$file" ;;
        '/docker-entrypoint-initdb.d/*') ;;
        *) echo "postgres: passing over $file; what is run ends in .sh or .sql" ;;
        esac
    done
    PGUSER=$POSTGRES_USER pg_ctl -D "$PGDATA" -m fast -w stop
}

[[ ${1:-} != -* ]] || set -- postgres "$@"
if [[ ${1:-} == postgres ]]; then
    # Secrets are read before the step down: their files may be root's alone.
    from_file POSTGRES_PASSWORD ''
    from_file POSTGRES_USER postgres
    from_file POSTGRES_DB "$POSTGRES_USER"
    from_file POSTGRES_INITDB_ARGS ''
    mkdir -p "$PGDATA"
    chmod 0700 "$PGDATA" 2>/dev/null || true
    if [[ $(id -u) == 0 ]]; then
        find "$PGDATA" \! -user postgres -exec chown postgres '{}' +
        find /var/run/postgresql \! -user postgres -exec chown postgres '{}' + 2>/dev/null || true
        export HOME=/var/lib/postgresql
        exec setpriv --reuid=postgres --regid=postgres --init-groups "$BASH_SOURCE" "$@"
    fi
    [[ -s $PGDATA/PG_VERSION ]] || first_start
    unset POSTGRES_PASSWORD
fi
exec "$@"
