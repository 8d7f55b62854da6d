"""The Spark session of a job, or a clear word about what is missing."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from mqpipeline.errors import PipelineError, UsageError

__all__ = ["open_session", "read_pairs", "require_spark"]

PYSPARK_MIN = (4, 2)
_OURS = {
    "spark.sql.session.timeZone": "UTC",
    "spark.log.level": "FATAL",
    "spark.ui.showConsoleProgress": "false",
}
_LOCAL = {
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}
"""A driver that has all its workers in its own process is not for the network."""


def open_session(
    master: str = "local[*]", conf: Mapping[str, str] | None = None, application: str = "mqpipeline"
) -> Any:
    """The session for a master; the one that this process has already, if there is one.

    conf: Spark's settings, above those of the jobs. Raises PipelineError that says what to install.
    """
    require_spark(master)
    from pyspark.sql import SparkSession

    if master.startswith("local"):
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName(application)
    builder = builder.remote(master) if master.startswith("sc://") else builder.master(master)
    settings = _OURS | (_LOCAL if master.startswith("local") else {}) | dict(conf or {})
    for key, value in settings.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def require_spark(master: str) -> None:
    """Raise PipelineError unless PySpark is there, and Java where the driver needs it."""
    try:
        found = version("pyspark")
    except PackageNotFoundError:
        raise PipelineError(
            "the jobs need PySpark: pip install 'pyspark>=4.2' (beside 'mqstack[pipeline]')"
        ) from None
    if tuple(int(part) for part in found.split(".")[:2]) < PYSPARK_MIN:
        raise PipelineError(f"PySpark {found} is too old: pip install 'pyspark>=4.2'")
    needs_java = not master.startswith("sc://")
    if needs_java and shutil.which("java") is None and not os.environ.get("JAVA_HOME"):
        raise PipelineError(
            "Spark needs Java 17 and there is no `java`: install it (Debian: "
            "openjdk-17-jre-headless) or set JAVA_HOME"
        )


def read_pairs(pairs: tuple[str, ...], flag: str) -> dict[str, str]:
    """The words KEY=VALUE of an option. Raises UsageError."""
    found = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key:
            raise UsageError(f"{flag} {pair!r}: give KEY=VALUE")
        found[key] = value
    return found
