# One broker. `docker run -p 127.0.0.1:9092:9092 ottla` is a cluster of its own; docker-compose.yml has three.
FROM python:3.13.7-slim-bookworm AS build

ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
WORKDIR /source
# Compiles the record codec; the later stages have no compiler.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends gcc libc6-dev \
    && rm -rf /var/lib/apt/lists/*
COPY pyproject.toml setup.py README.md LICENSE ./
COPY protocol protocol
COPY wire wire
COPY coordinator coordinator
COPY client client
COPY broker broker
COPY ottla ottla
# The package installs without compiled modules if they fail to build; fail the image build instead.
# -I: the modules of the installed package count, not what lies in the source folder.
# hadolint ignore=DL3013
RUN OTTLA_REQUIRE_COMPILED=1 pip wheel --no-deps --wheel-dir /wheels . \
    && python -m venv --without-pip /opt/ottla \
    && for wheel in /wheels/*.whl; do pip --python /opt/ottla/bin/python install --only-binary :all: "${wheel}[security,console]"; done \
    && /opt/ottla/bin/python -I -c "from ottla.protocol.records import compiled_checksum, compiled_columns, compiled_encoding, compiled_rows, compiled_straight, compiled_survey"


# Pipelines on Spark, which need Java; docker-compose.yml has them in the profile spark.
FROM python:3.13.7-slim-bookworm AS spark

# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends openjdk-17-jre-headless \
    && rm -rf /var/lib/apt/lists/* \
    && groupadd --gid 1000 ottla \
    && useradd --uid 1000 --gid ottla --create-home --shell /usr/sbin/nologin ottla \
    && install --directory --owner ottla --group ottla --mode 0750 /lake
COPY --from=build /wheels /wheels
RUN python -m venv /opt/ottla \
    && for wheel in /wheels/*.whl; do /opt/ottla/bin/pip install --no-cache-dir "${wheel}[spark]"; done
ENV PATH=/opt/ottla/bin:$PATH \
    PYTHONUNBUFFERED=1
USER 1000:1000
WORKDIR /lake
VOLUME /lake
ENTRYPOINT ["ottla", "spark"]
CMD ["--help"]


FROM python:3.13.7-slim-bookworm

RUN groupadd --gid 1000 ottla \
    && useradd --uid 1000 --gid ottla --no-create-home --shell /usr/sbin/nologin ottla \
    && install --directory --owner ottla --group ottla --mode 0750 /data \
    && install --directory --owner ottla --group ottla --mode 0700 /secure /secure/broker-1 /secure/broker-2 /secure/broker-3
COPY --from=build /opt/ottla /opt/ottla

# The directories of docker-compose.secure.yml: a new volume has the owner of what it is mounted over.
# KAFKA_A_B sets a.b, and so does KAFKA_CFG_A_B. The broker listens in the container's own network
# (OTTLA_HOST) on the ports of the listeners, or else of the advertised listeners; clients are told
# where they find the published port.
ENV PATH=/opt/ottla/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    KAFKA_LOG_DIRS=/data \
    OTTLA_HOST=0.0.0.0 \
    KAFKA_ADVERTISED_LISTENERS=PLAINTEXT://localhost:9092 \
    KAFKA_OTTLA_METRICS_LISTENER=0.0.0.0:9404

# By number, so that whoever demands a user other than root can tell.
USER 1000:1000
WORKDIR /data
VOLUME /data
EXPOSE 9092 9404
# The broker is process 1 and obeys the signal itself: it drains, flushes and leaves the cluster.
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s --retries=3 \
    CMD ["python", "-c", "import urllib.request as r; r.urlopen('http://127.0.0.1:9404/healthz', timeout=4)"]
ENTRYPOINT ["ottla"]
CMD ["start"]
