"""A Spark program of its own, since only `local[N,M]` runs a failed task again.

Writes rows whose source kills its worker in the middle of the first attempt.
Arguments: NameServer, topic, number of rows, a file that tells the attempts apart.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

from pyspark.sql import SparkSession


def main(namesrv: str, topic: str, rows: int, marker: str) -> None:
    def dying_once(numbers: Iterator[int]) -> Iterator[tuple[bytes]]:
        for number in numbers:
            if number == 2 * rows // 3 and not Path(marker).exists():
                Path(marker).touch()
                os.kill(os.getpid(), signal.SIGKILL)
            yield (str(number).encode() * 200,)

    spark = (
        SparkSession.builder.master("local[2,3]")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.sql.execution.arrow.maxRecordsPerBatch", "500")
        .getOrCreate()
    )
    numbers = spark.sparkContext.parallelize(range(rows), 1)
    frame = spark.createDataFrame(numbers.mapPartitions(dying_once), "body binary")
    sink = frame.write.format("rocketmq").options(namesrv=namesrv, topic=topic)
    sink.mode("append").save()
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4])
