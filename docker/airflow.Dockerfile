# The Airflow of the team set-up: scheduler, API server, DAG processor and workers are this one image.
# Built by `scripts/images.sh airflow`; DEPENDENCIES is the image that docker/dependencies.Dockerfile made of requirements.txt.
ARG DEPENDENCIES=ratchet-airflow-base:cpu
FROM ${DEPENDENCIES}
COPY tasks/ /opt/ratchet/lib/python3.11/site-packages/tasks/
COPY docker/ratchet /opt/ratchet/bin/ratchet
COPY dags/ /opt/airflow/dags/
COPY plugins/ /opt/airflow/plugins/
RUN chmod 0755 /opt/ratchet/bin/ratchet \
    && /opt/ratchet/bin/python -m compileall -q /opt/ratchet/lib/python3.11/site-packages/tasks /opt/airflow \
    && mkdir -p /opt/airflow/logs \
    && chown 10001:10001 /opt/airflow /opt/airflow/logs
ENV AIRFLOW_HOME=/opt/airflow \
    AIRFLOW__CORE__DAGS_FOLDER=/opt/airflow/dags \
    AIRFLOW__CORE__PLUGINS_FOLDER=/opt/airflow/plugins \
    AIRFLOW__CORE__LOAD_EXAMPLES=false \
    HOME=/opt/airflow \
    USER=ratchet \
    LOGNAME=ratchet \
    MPLCONFIGDIR=/tmp/matplotlib \
    GIT_PYTHON_REFRESH=quiet \
    GX_ANALYTICS_ENABLED=false
USER 10001:10001
WORKDIR /opt/airflow
ENTRYPOINT ["airflow"]
