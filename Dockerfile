# The build needs Rust and a C compiler; the image that runs has neither.
FROM python:3.12-slim AS build
SHELL ["/bin/bash", "-o", "pipefail", "-c"]
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install -y --no-install-recommends gcc libc6-dev rustup \
    && rm -rf /var/lib/apt/lists/* \
    && rustup default stable
COPY . /src
RUN pip wheel --no-cache-dir --wheel-dir /wheels '/src[lz4,metrics]'

FROM python:3.12-slim
# hadolint ignore=DL3013
RUN --mount=type=bind,from=build,source=/wheels,target=/wheels \
    pip install --no-cache-dir --no-index --find-links /wheels 'mqstack[lz4,metrics]' \
    && useradd --system --uid 10911 --user-group --home-dir /data --create-home mqstack
USER 10911
WORKDIR /data
VOLUME /data
# The address that clients are given, as host or host:port. Empty: the container's own address,
# which clients on other machines cannot reach; the broker then warns.
ENV MQSTACK_ADVERTISE=""
# NameServer, broker's fast port, broker, replication
EXPOSE 9876 10909 10911 10912
HEALTHCHECK --interval=10s --timeout=3s --start-period=30s \
    CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:5557/ready', timeout=2)"]
CMD ["mqserver", "standalone", "--host", "0.0.0.0", "--data", "/data", "--set", "metricsListen=127.0.0.1:5557"]
