#!/bin/sh
# Runs once, in a new database server: a role and a database for Airflow and for MLflow, neither of which sees the other's.
set -eu
for name in airflow mlflow; do
    # Passwords are made of letters and digits alone (team/secrets.py), and are read from a file, not from arguments.
    psql -v ON_ERROR_STOP=1 --username postgres --no-password <<SQL
CREATE ROLE $name LOGIN PASSWORD '$(cat "/run/secrets/$name-database-password")';
CREATE DATABASE $name OWNER $name;
REVOKE ALL ON DATABASE $name FROM PUBLIC;
SQL
done
