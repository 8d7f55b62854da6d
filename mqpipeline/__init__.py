"""Spark jobs that copy topics to a lake and back; the command `mqpipeline` runs them.

    from mqpipeline import to_lake

    report = to_lake("/data/lake", ["Orders"], {"namesrv": "127.0.0.1:9876"})

A lake is a folder of Parquet files, partitioned by topic, day and hour. The names are imported at
their first use, because each job needs PySpark and pyarrow.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mqpipeline.errors import PipelineError
    from mqpipeline.jobs.audit import audit, audit_lake
    from mqpipeline.jobs.compact import compact
    from mqpipeline.jobs.dlq import dlq
    from mqpipeline.jobs.recover import recover
    from mqpipeline.jobs.replay import replay
    from mqpipeline.jobs.to_lake import to_lake

    __version__: str

__all__ = ["PipelineError", "audit", "audit_lake", "compact", "dlq", "recover", "replay", "to_lake"]

_HOMES = {
    "PipelineError": "mqpipeline.errors",
    "audit": "mqpipeline.jobs.audit",
    "audit_lake": "mqpipeline.jobs.audit",
    "compact": "mqpipeline.jobs.compact",
    "dlq": "mqpipeline.jobs.dlq",
    "recover": "mqpipeline.jobs.recover",
    "replay": "mqpipeline.jobs.replay",
    "to_lake": "mqpipeline.jobs.to_lake",
}


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from mqcommon.version import version

        return version()
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
