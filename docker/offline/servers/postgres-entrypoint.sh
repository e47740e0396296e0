#!/usr/bin/env bash
# Start PostgreSQL as the user postgres. If the volume has no cluster, make one first.
#   POSTGRES_PASSWORD or POSTGRES_PASSWORD_FILE   the first user's password; the first start needs it
#   POSTGRES_USER, POSTGRES_DB                    the first user (postgres) and database (the user's name); also *_FILE
#   POSTGRES_INITDB_ARGS                          more options of initdb
#   /docker-entrypoint-initdb.d/*.sh *.sql        the first start runs them in the order of their names
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
    # Nobody can connect from outside until the set-up is complete.
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
        *) echo "postgres: skipping $file; name it .sh or .sql to run it" ;;
        esac
    done
    PGUSER=$POSTGRES_USER pg_ctl -D "$PGDATA" -m fast -w stop
}

[[ ${1:-} != -* ]] || set -- postgres "$@"
if [[ ${1:-} == postgres ]]; then
    # Read the secrets as root: perhaps only root may read their files.
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
