# The packages that a stage imports, without our own code. Only a change of the pins or of the base rebuilds it.
# The context is the folder that docker/packages.sh writes. No step needs a network.
ARG BASE
FROM ${BASE}
RUN python3 -m venv --without-pip /opt/ratchet
COPY packages/ /opt/ratchet/lib/python3.11/site-packages/
# Containers cannot write bytecode, so the build compiles it. compileall skips files that are compiled already.
RUN mv /opt/ratchet/lib/python3.11/site-packages/bin/* /opt/ratchet/bin/ \
    && rmdir /opt/ratchet/lib/python3.11/site-packages/bin \
    && { /opt/ratchet/bin/python -m compileall -q -j 0 /opt/ratchet/lib/python3.11/site-packages >/dev/null || true; }
ENV PATH=/opt/ratchet/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
    LANG=C.UTF-8 \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1
