# The stage image: what `ratchet stage REQUEST` needs, and nothing else. `scripts/images.sh` builds it.
# VARIANT is cpu or gpu; DEPENDENCIES is the image that docker/dependencies.Dockerfile made for it.
ARG VARIANT=cpu
ARG DEPENDENCIES=ratchet-stage-base:${VARIANT}
FROM ${DEPENDENCIES}
ARG VARIANT=cpu
COPY ratchet/ /opt/ratchet/lib/python3.11/site-packages/ratchet/
COPY tasks/ /opt/ratchet/lib/python3.11/site-packages/tasks/
COPY docker/ratchet /opt/ratchet/bin/ratchet
# An empty volume takes the owner of the folder that it is mounted on: so stages may write to their cache.
RUN chmod 0755 /opt/ratchet/bin/ratchet \
    && /opt/ratchet/bin/python -m compileall -q /opt/ratchet/lib/python3.11/site-packages/ratchet \
        /opt/ratchet/lib/python3.11/site-packages/tasks \
    && install -d -m 0700 -o 10001 -g 10001 /var/cache/ratchet
# The root file system is read-only in a stage, and its user has no entry anywhere: what libraries like to write goes to
# the tmpfs at /tmp, and the name that they ask for is given.
ENV HOME=/tmp \
    USER=ratchet \
    LOGNAME=ratchet \
    GIT_PYTHON_REFRESH=quiet \
    GX_ANALYTICS_ENABLED=false \
    MLFLOW_DISABLE_TELEMETRY=true
LABEL ratchet.variant=${VARIANT}
USER 10001:10001
WORKDIR /tmp
ENTRYPOINT ["ratchet"]
