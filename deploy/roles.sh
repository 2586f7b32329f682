#!/bin/sh
# Creates the roles and the database of docs/how-to/run-on-postgres.md; run once, by the superuser of a new server.
set -eu
psql --set=ON_ERROR_STOP=1 --username="${POSTGRES_USER:-postgres}" --dbname=postgres \
    --set=owner_password="$OWNER_PASSWORD" --set=app_password="$APP_PASSWORD" <<'SQL'
CREATE ROLE twinraven_app NOLOGIN;
CREATE ROLE app LOGIN PASSWORD :'app_password' IN ROLE twinraven_app;
CREATE ROLE owner LOGIN PASSWORD :'owner_password';
CREATE DATABASE twinraven OWNER owner;
SQL
