FROM python:3.12-slim AS build
RUN apt-get update && apt-get install -y --no-install-recommends gcc libc6-dev rustup && rustup default stable
COPY . /src
RUN pip wheel --no-deps --wheel-dir /wheels /src

FROM python:3.12-slim
COPY --from=build /wheels /wheels
RUN pip install --no-cache-dir /wheels/*.whl
EXPOSE 9876 10911
CMD ["mqserver", "standalone", "--host", "0.0.0.0", "--data", "/data"]
