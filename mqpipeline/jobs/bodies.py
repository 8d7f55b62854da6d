"""The column `value`: bodies decoded as JSON or Avro with Spark's own functions."""

from __future__ import annotations

import operator
from functools import reduce
from pathlib import Path
from typing import Any, Literal, NamedTuple

from mqpipeline.errors import PipelineError, UsageError
from mqpipeline.lake.lake_writer import VALUE

__all__ = ["Body", "with_value"]

_CORRUPT = "_mqpipeline_corrupt"
_AVRO_CLASS = "org.apache.spark.sql.avro.AvroDataToCatalyst"


class Body(NamedTuple):
    """The format of message bodies. kind: json or avro.

    schema: for json a Spark schema such as "a int, b string"; for avro the path of a schema file.
    """

    kind: Literal["json", "avro"]
    schema: str

    def check(self) -> None:
        """Raise UsageError if the schema is wrong, as far as this can be checked without Java."""
        if self.kind == "json":
            if not self.schema.strip():
                raise UsageError("--schema is empty: give columns, as in 'a int, b string'")
            return
        try:
            import json

            json.loads(Path(self.schema).read_bytes())
        except OSError as error:
            raise UsageError(f"--schema {self.schema}: {error.strerror}") from None
        except ValueError as error:
            raise UsageError(f"--schema {self.schema} is no Avro schema: {error}") from None


def with_value(spark: Any, frame: Any, body: Body | None) -> Any:
    """Add the column `value`; it is null in rows whose body does not match the schema."""
    if body is None:
        return frame
    return _json(frame, body.schema) if body.kind == "json" else _avro(spark, frame, body.schema)


def _json(frame: Any, schema: str) -> Any:
    from pyspark.errors import ParseException
    from pyspark.sql import functions
    from pyspark.sql.types import StringType, StructType

    try:
        fields = StructType.fromDDL(schema)
    except ParseException as error:
        raise UsageError(f"--schema {schema!r}: {str(error).splitlines()[0]}") from None
    names = fields.names
    whole = StructType([*fields.fields]).add(_CORRUPT, StringType())
    text = functions.col("body").cast("string")
    options = {"columnNameOfCorruptRecord": _CORRUPT}
    parsed = functions.from_json(text, whole, options)
    value = functions.col(VALUE)
    fits = value.isNotNull() & value[_CORRUPT].isNull()
    row = functions.struct(*(value[name].alias(name) for name in names))
    return frame.withColumn(VALUE, parsed).withColumn(VALUE, functions.when(fits, row))


def _avro(spark: Any, frame: Any, file: str) -> Any:
    from pyspark.sql import functions
    from pyspark.sql.avro.functions import from_avro
    from pyspark.sql.types import StructType

    try:
        spark._jvm.java.lang.Class.forName(
            _AVRO_CLASS, False, spark._jvm.java.lang.Thread.currentThread().getContextClassLoader()
        )
    except Exception as error:
        if "ClassNotFoundException" not in str(error):
            raise PipelineError(f"Spark's JVM failed: {error}") from error
        raise PipelineError(
            "Avro bodies need Spark's own package: --conf spark.jars.packages="
            f"org.apache.spark:spark-avro_2.13:{spark.version}"
        ) from None
    decoded = frame.withColumn(
        VALUE, from_avro("body", Path(file).read_text(), {"mode": "PERMISSIVE"})
    )
    kind = decoded.schema[VALUE].dataType
    if not isinstance(kind, StructType):
        return decoded
    # Spark decodes a body that does not match into a record whose fields are all null.
    value = functions.col(VALUE)
    some = reduce(operator.or_, (value[name].isNotNull() for name in kind.names))
    return decoded.withColumn(VALUE, functions.when(some, value))
