FROM python:3.11-slim-bookworm AS build
WORKDIR /src
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY svm svm
COPY service service
COPY docs docs
COPY tools tools
COPY CHANGELOG.md ./
RUN python -m venv /opt/docs \
 && /opt/docs/bin/python -m pip install --no-cache-dir --constraint constraints.txt zensical mkdocstrings-python \
 && /opt/docs/bin/python -m tools.make_site
# The virtual environment gets no pip of its own: nothing is installed into it later.
RUN python -m venv --without-pip /opt/svm \
 && python -m pip --python /opt/svm/bin/python install --no-cache-dir --constraint constraints.txt '.[cluster]'

FROM python:3.11-slim-bookworm
RUN groupadd --gid 10001 svm \
 && useradd --uid 10001 --gid svm --home-dir /data --no-create-home --shell /usr/sbin/nologin svm \
 && install --directory --owner svm --group svm /data
COPY --from=build /opt/svm /opt/svm
ENV PATH=/opt/svm/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    SVM_DATA_DIR=/data
USER svm
WORKDIR /data
# All that is written goes here, compiled loops included: the root file system may be read-only.
VOLUME /data
EXPOSE 8000
# A socket, because importing an HTTP client alone can take seconds on a busy machine.
HEALTHCHECK --interval=10s --timeout=10s --start-period=60s \
    CMD ["python", "-SE", "-c", "import socket, sys; s = socket.create_connection(('127.0.0.1', 8000), 8); s.sendall(b'GET /readyz HTTP/1.0\\r\\nHost: localhost\\r\\n\\r\\n'); sys.exit(b' 200 ' not in s.recv(64))"]
CMD ["svm-service", "serve", "--host", "0.0.0.0"]
