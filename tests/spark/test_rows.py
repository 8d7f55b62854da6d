"""Rows by key and rows without repeats, as a task gives them to Spark, without Spark."""

import pytest

pytest.importorskip("pyspark")
import pyarrow as pa

from mqpipeline.spark.topics import rows
from mqpipeline.spark.topics.options import Options
from mqstore.arrow import arrow_schema


def given(monkeypatch, batches, names, **options):
    """The rows that `read_rows` makes of (topic, keys, row id, body) that a task reads."""

    def read_task(task, schema, options):
        for batch in batches:
            columns = {
                "topic": [row[0] for row in batch],
                "keys": [row[1] for row in batch],
                "raw_properties": [
                    None if row[2] is None else f"a\x011\x02sparkRowId\x01{row[2]}\x02"
                    for row in batch
                ],
                "body": [row[3] for row in batch],
            }
            yield pa.RecordBatch.from_pydict({n: columns[n] for n in schema.names}, schema=schema)

    monkeypatch.setattr(rows, "read_task", read_task)
    schema = arrow_schema(names)
    parsed = Options.parse({"topic": "T", **options}, "batch")
    found = list(rows.read_rows(None, schema, parsed))
    assert all(batch.schema == schema for batch in found)
    return [row for batch in found for row in batch.to_pylist()]


ROWS = [
    [("T", "a b", "q/0", b"1"), ("T", None, None, b"2"), ("T", "b.c", "q/0", b"3")],
    [("T", "c", "q/1", b"4"), ("T", "bxc", "q/0", b"5"), ("U", "aa", "q/0", b"6")],
    [("T", None, None, b"2")],
]


@pytest.mark.parametrize(
    ("options", "bodies"),
    [
        ({}, b"1234562"),
        ({"keys": "a"}, b"1"),
        ({"keys": "b.c  c"}, b"34"),
        ({"keys": "b"}, b"1"),
        ({"dedup": "true"}, b"12462"),
        ({"dedup": "true", "keys": "a b.c"}, b"1"),
        ({"dedup": "false", "keys": "none"}, b""),
    ],
)
@pytest.mark.parametrize("names", [["body"], ["body", "keys"], ["topic", "body", "raw_properties"]])
def test_rows_that_spark_gets(monkeypatch, options, bodies, names):
    found = given(monkeypatch, ROWS, names, **options)
    assert b"".join(row["body"] for row in found) == bodies
