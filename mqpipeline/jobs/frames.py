"""DataFrames of messages, from topics or from the files of a lake."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from mqpipeline.errors import UsageError
from mqpipeline.jobs.topics import Piece, source_options
from mqpipeline.lake import layout, state
from mqpipeline.lake.layout import LakeFile
from mqpipeline.lake.storage import Lake

__all__ = ["lake_topics", "of_files", "of_lake", "of_topics"]


def of_topics(
    session: Any,
    namesrv: str | None,
    options: Mapping[str, str],
    pieces: Sequence[Piece],
    schema: str,
) -> Any:
    """The messages of these pieces. schema: columns with types; only these are decoded."""
    given = {"failOnDataLoss": "false", **source_options(namesrv, options, pieces)}
    return session.read.format("rocketmq").options(**given).schema(schema).load()


def lake_topics(lake: Lake) -> list[str]:
    """The topics that have files in a lake. Raises UsageError if it is not a usable lake."""
    if not lake.exists:
        raise UsageError(f"lake {lake.where} does not exist")
    found = (layout.parse_path(path) for path, _ in lake.walk(".parquet"))
    for job, known in state.all_states(lake):
        if known.step == state.COMMITTING:
            raise UsageError(
                f"job {job} was killed while it moved files of {lake.where}: run it again "
                f"first, so that it finishes"
            )
    topics = sorted({file.topic for file in found if file is not None})
    if not topics:
        raise UsageError(f"{lake.where} has no files of mqpipeline: is it a lake?")
    return topics


def of_lake(session: Any, lake: Lake, topics: Sequence[str]) -> Any:
    """The messages of these topics, default all. Raises UsageError for an unknown topic."""
    known = lake_topics(lake)
    for topic in topics:
        if topic not in known:
            raise UsageError(f"lake {lake.where} has no topic {topic!r}; it has {', '.join(known)}")
    found = (layout.parse_path(path) for path, _ in lake.walk(".parquet"))
    wanted = set(topics or known)
    return of_files(session, lake, [file for file in found if file and file.topic in wanted])


def of_files(session: Any, lake: Lake, files: Sequence[LakeFile]) -> Any:
    """The messages of these files of a lake, with the columns that are in the path."""
    from pyspark.sql import functions

    # Otherwise Spark reads the topic name 007 as the number 7.
    session.conf.set("spark.sql.sources.partitionColumnTypeInference.enabled", "false")
    options = {"mergeSchema": "true", "basePath": lake.where}
    paths = [f"{lake.where}/{_for_spark(file.path)}" for file in files]
    frame = session.read.options(**options).parquet(*paths)
    if "broker_name" not in frame.columns:  # `recover` writes files without it
        frame = frame.withColumn("broker_name", functions.lit(""))
    return frame


def _for_spark(path: str) -> str:
    """A path whose characters are escaped where Hadoop would read them as a pattern."""
    return re.sub(r"([\[\]{}*?\\])", r"\\\1", path)
