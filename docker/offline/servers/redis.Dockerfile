# Redis 7.0 of Debian 12. User id, folder and entry point are those of the image `redis`. One thing differs: without a
# password Debian's build answers only its own host (protected-mode).
ARG DEBIAN
FROM ${DEBIAN}
COPY redis-entrypoint.sh /usr/local/bin/docker-entrypoint.sh
RUN chmod 0755 /usr/local/bin/docker-entrypoint.sh \
    && rm -rf /var/lib/redis /var/log/redis /etc/redis \
    && groupmod --gid 999 redis \
    && usermod --uid 999 --gid 999 --home /data redis \
    && install -d -o redis -g redis -m 0755 /data
VOLUME /data
WORKDIR /data
EXPOSE 6379
ENTRYPOINT ["docker-entrypoint.sh"]
CMD ["redis-server"]
