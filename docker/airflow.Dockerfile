# The team set-up's image: Airflow's five components, MLflow's server, the engine filter and the first set-up.
# `scripts/images.sh airflow` builds it. DEPENDENCIES is the image that docker/dependencies.Dockerfile builds from
# docker/airflow.txt. The image has no entry point: give the whole command (`airflow api-server`, `mlflow server`,
# `python -m team.engine_filter`). Without a command it prints Airflow's version.
ARG DEPENDENCIES=ratchet-airflow-base:cpu
FROM ${DEPENDENCIES}
# The layout is that of a checkout, because a stage's fingerprint includes the lock file of its packages.
COPY ratchet/ /opt/ratchet/ours/ratchet/
COPY tasks/ /opt/ratchet/ours/tasks/
COPY team/ /opt/ratchet/ours/team/
COPY docker/stage.txt /opt/ratchet/ours/docker/stage.txt
COPY docker/ratchet docker/with-secrets /opt/ratchet/bin/
COPY dags/*.py /opt/airflow/dags/
COPY plugins/ /opt/airflow/plugins/
# Any user of group 0 may write to these folders, which volumes are mounted on, so that a container can run as the owner of the
# secrets. Without airflow.cfg Airflow would write one, with keys in it, at the first start. So there is an empty one.
RUN chmod 0755 /opt/ratchet/bin/ratchet /opt/ratchet/bin/with-secrets \
    && echo /opt/ratchet/ours >/opt/ratchet/lib/python3.11/site-packages/ratchet.pth \
    && /opt/ratchet/bin/python -m compileall -q /opt/ratchet/ours /opt/airflow \
    && mkdir -p /opt/airflow/logs \
    && touch /opt/airflow/airflow.cfg \
    && echo 'ratchet:x:10001:0:Ratchet:/opt/airflow:/usr/sbin/nologin' >>/etc/passwd \
    && mkdir /srv/pipelines \
    && chown 10001:0 /opt/airflow /opt/airflow/logs /srv/pipelines \
    && chmod 2775 /opt/airflow /opt/airflow/logs /srv/pipelines
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
