"""Opens the Spark session of a job, with a clear error if something is missing."""

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
"""With a local master the workers run on this machine, so the driver needs only loopback."""


def open_session(
    master: str = "local[*]", conf: Mapping[str, str] | None = None, application: str = "mqpipeline"
) -> Any:
    """The session for a master; reuses the session of this process if there is one.

    conf: Spark settings, which override the settings of the jobs. Raises PipelineError with the
    package to install.
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
    """Raise PipelineError if PySpark is missing, or Java and the driver needs it."""
    try:
        found = version("pyspark")
    except PackageNotFoundError:
        raise PipelineError(
            "the jobs need PySpark: pip install 'mqstack[pipeline]' 'pyspark>=4.2'"
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
    """Parse the KEY=VALUE values of an option. Raises UsageError."""
    found = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key:
            raise UsageError(f"{flag} {pair!r}: give KEY=VALUE")
        found[key] = value
    return found
