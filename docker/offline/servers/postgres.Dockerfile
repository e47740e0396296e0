# PostgreSQL 15 of Debian 12. User id, folders, environment and entry point are those of the image `postgres`. The locale
# differs: it is C.UTF-8 here and en_US.utf8 there, so set --locale in POSTGRES_INITDB_ARGS.
ARG DEBIAN
FROM ${DEBIAN}
COPY postgres-entrypoint.sh /usr/local/bin/docker-entrypoint.sh
RUN chmod 0755 /usr/local/bin/docker-entrypoint.sh \
    && rm -rf /var/lib/postgresql /var/log/postgresql /etc/postgresql \
    && groupmod --gid 999 postgres \
    && usermod --uid 999 --gid 999 --home /var/lib/postgresql postgres \
    && install -d -o postgres -g postgres -m 0755 /var/lib/postgresql \
    && install -d -o postgres -g postgres -m 1777 /var/lib/postgresql/data \
    && install -d -o postgres -g postgres -m 3777 /var/run/postgresql \
    && mkdir /docker-entrypoint-initdb.d \
    && sed -i "s/^#listen_addresses = .*/listen_addresses = '*'/" /usr/share/postgresql/15/postgresql.conf.sample
ENV PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/usr/lib/postgresql/15/bin \
    LANG=C.UTF-8 \
    PG_MAJOR=15 \
    PGDATA=/var/lib/postgresql/data
VOLUME /var/lib/postgresql/data
STOPSIGNAL SIGINT
EXPOSE 5432
ENTRYPOINT ["docker-entrypoint.sh"]
CMD ["postgres"]
