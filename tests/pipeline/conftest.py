"""A broker for all tests of the pipeline, and the Spark session of the tests in tests/spark."""

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("pyarrow")

import mqserver
from tests.pipeline.in_process import InProcess
from tests.spark.conftest import pytest_itemcollected, spark, spark_environment

__all__ = ["pytest_itemcollected", "spark", "spark_environment"]


@pytest.fixture(scope="session")
def mq():
    """A broker per worker. The messages of a session fixture are sent once per session too.

    The tests of a module that use `spark` run apart from the others, so that a fixture of the
    module may be made twice.
    """
    with mqserver.Standalone() as mq:
        yield mq


@pytest.fixture
def plain():
    """Gives a stand-in for a session, without a JVM."""
    return lambda: InProcess()
