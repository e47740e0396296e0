# The team set-up's own image: Airflow's five components, MLflow's server, the engine filter and the first set-up.
# Built by `scripts/images.sh airflow`; DEPENDENCIES is the image that docker/dependencies.Dockerfile made of
# docker/airflow.txt. There is no entry point: a command is given whole (`airflow api-server`, `mlflow server`,
# `python -m team.engine_filter`), and none at all prints Airflow's version.
ARG DEPENDENCIES=ratchet-airflow-base:cpu
FROM ${DEPENDENCIES}
# Laid out as in a checkout: what a stage's result depends on is also the lock of its packages.
COPY ratchet/ /opt/ratchet/ours/ratchet/
COPY tasks/ /opt/ratchet/ours/tasks/
COPY team/ /opt/ratchet/ours/team/
COPY docker/stage.txt /opt/ratchet/ours/docker/stage.txt
COPY docker/ratchet docker/with-secrets /opt/ratchet/bin/
COPY dags/ /opt/airflow/dags/
COPY plugins/ /opt/airflow/plugins/
# Any user of group 0 may write to /opt/airflow and /opt/airflow/logs, so that a container can run as whoever owns the
# secrets. The empty airflow.cfg keeps Airflow from writing one, with keys in it, at the first start.
RUN chmod 0755 /opt/ratchet/bin/ratchet /opt/ratchet/bin/with-secrets \
    && echo /opt/ratchet/ours >/opt/ratchet/lib/python3.11/site-packages/ratchet.pth \
    && /opt/ratchet/bin/python -m compileall -q /opt/ratchet/ours /opt/airflow \
    && mkdir -p /opt/airflow/logs \
    && touch /opt/airflow/airflow.cfg \
    && echo 'ratchet:x:10001:0:Ratchet:/opt/airflow:/usr/sbin/nologin' >>/etc/passwd \
    && chown 10001:0 /opt/airflow /opt/airflow/logs \
    && chmod 2775 /opt/airflow /opt/airflow/logs
ENV AIRFLOW_HOME=/opt/airflow \
    AIRFLOW__CORE__DAGS_FOLDER=/opt/airflow/dags \
    AIRFLOW__CORE__PLUGINS_FOLDER=/opt/airflow/plugins \
    AIRFLOW__CORE__LOAD_EXAMPLES=false \
    HOME=/opt/airflow \
    USER=ratchet \
    LOGNAME=ratchet \
    GIT_PYTHON_REFRESH=quiet \
    GX_ANALYTICS_ENABLED=false \
    MLFLOW_DISABLE_TELEMETRY=true
USER 10001:0
WORKDIR /opt/airflow
ENTRYPOINT []
CMD ["airflow", "version"]
