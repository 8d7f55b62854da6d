"""One local Spark session for all tests: starting one takes ten seconds."""

import os
import shutil
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent


def pytest_itemcollected(item):
    """One worker runs all tests that use the session; the other tests are distributed by module.

    Marked as collected, because xdist looks before other hooks.
    """
    item.add_marker(pytest.mark.timeout(1200))
    if "spark" in item.fixturenames:
        item.add_marker(pytest.mark.xdist_group("spark"))


def needs_java():
    """Skip a test where Spark cannot run."""
    if shutil.which("java") is None:
        pytest.skip("no `java` on the PATH: Spark needs Java 17 (Debian: openjdk-17-jdk-headless)")


@pytest.fixture(scope="session")
def spark_environment():
    """The environment of a process that starts Spark, set for this one too."""
    needs_java()
    pytest.importorskip("pyspark.sql")
    os.environ["PYSPARK_PYTHON"] = sys.executable
    search_path = [str(ROOT), os.environ.get("PYTHONPATH", "")]
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, search_path))
    return dict(os.environ)


@pytest.fixture(scope="session")
def spark(spark_environment, tmp_path_factory):
    from pyspark import sql as pyspark_sql

    scratch = tmp_path_factory.mktemp("spark")
    session = (
        pyspark_sql.SparkSession.builder.master("local[2]")
        .appName("mqstack-tests")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.warehouse.dir", str(scratch / "warehouse"))
        .config("spark.local.dir", str(scratch / "local"))
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.log.level", "ERROR")
        .getOrCreate()
    )
    yield session
    session.stop()
