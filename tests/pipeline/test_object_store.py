"""topic -> lake on an object store, S3's by moto: each message once, at whatever step it dies."""

import subprocess
import sys
from collections import Counter

import pyarrow.dataset as ds
import pytest
from pyarrow import fs

from mqpipeline.jobs.compact import compact
from mqpipeline.jobs.to_lake import to_lake
from mqserver.embedded.testing import free_port
from scripts.server_process import ServerProcess
from tests.pipeline.test_to_lake import STEPS, WHOLE, Killed, killed_at, orders

__all__ = ["orders"]
pytestmark = pytest.mark.soak

MOTO = ["moto[s3]>=5.2,<6", "flask>=3,<4", "flask-cors>=6,<7"]
"""Packages of hundreds of megabytes, so they have an environment of their own."""

SERVER = """
import sys
from moto.server import ThreadedMotoServer
server = ThreadedMotoServer("127.0.0.1", int(sys.argv[1]), verbose=False)
server.start()
print("ready:", flush=True)
sys.stdin.read()
"""


@pytest.fixture(scope="module")
def endpoint(tmp_path_factory):
    """The address of an S3 server."""
    environment = tmp_path_factory.mktemp("moto") / "venv"
    subprocess.run([sys.executable, "-m", "venv", str(environment)], check=True)
    python = str(environment / "bin" / "python")
    subprocess.run([python, "-m", "pip", "install", "--quiet", *MOTO], check=True)
    port = free_port()
    process = ServerProcess([python, "-c", SERVER, str(port)], cwd=environment, ready="ready:")
    yield f"127.0.0.1:{port}"
    process.kill()


@pytest.fixture
def lake(endpoint, monkeypatch, request):
    """The URI of a lake in a new bucket, and what reads its rows."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "id")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    store = fs.S3FileSystem(endpoint_override=endpoint, scheme="http", allow_bucket_creation=True)
    bucket = f"bucket-{abs(hash(request.node.name))}"
    store.create_dir(bucket)

    def bodies():
        files = fs.FileSelector(f"{bucket}/lake", recursive=True, allow_not_found=True)
        names = [info.path for info in store.get_file_info(files)]
        rows = [name for name in names if name.endswith(".parquet") and "_mqpipeline" not in name]
        if not rows:
            return Counter()
        found = ds.dataset(rows, filesystem=store, format="parquet").to_table(["body"])
        return Counter(body.decode() for body in found["body"].to_pylist())

    return f"s3://{bucket}/lake?endpoint_override={endpoint}&scheme=http", bodies


@pytest.mark.parametrize(("step", "count"), STEPS)
def test_a_job_killed_at_any_step_goes_on(mq, orders, plain, lake, step, count):
    uri, bodies = lake
    job = {"namesrv": mq.namesrv, "spark": plain, "rows_max": 6}
    with pytest.raises(Killed):
        to_lake(uri, [orders], **job, on_step=killed_at(step, count))
    assert max(bodies().values(), default=1) == 1
    to_lake(uri, [orders], **job)
    assert bodies() == WHOLE


def test_small_files_become_one(mq, orders, plain, lake):
    uri, bodies = lake
    to_lake(uri, [orders], namesrv=mq.namesrv, spark=plain, rows_max=2)
    report = compact(uri, spark=plain)
    assert (report.files_after, report.messages, bodies()) == (1, 40, WHOLE)
