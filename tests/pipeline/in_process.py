"""Stands in for a Spark session without a JVM: calls our sources and sinks in order."""

from __future__ import annotations

import pickle
from typing import Any

import pyarrow as pa

from mqpipeline.spark.files import StoreDataSource
from mqpipeline.spark.topics.source import RocketMQDataSource


class CaseInsensitive(dict):
    """Spark's options: any case to ask, lower case to iterate."""

    def __init__(self, values):
        super().__init__({key.lower(): value for key, value in values.items()})

    def __getitem__(self, name):
        return super().__getitem__(name.lower())

    def get(self, name, default=None):
        return super().get(name.lower(), default)


class InProcess:
    """A session. Tasks run one after the other, and what goes to them is pickled."""

    def __init__(self) -> None:
        known = (RocketMQDataSource, StoreDataSource)
        self.formats: dict[str, Any] = {source.name(): source for source in known}
        self.dataSource = self
        self.version = "0"

    def register(self, source: Any) -> None:
        self.formats[source.name()] = source

    @property
    def read(self) -> _Reader:
        return _Reader(self)

    def createDataFrame(self, rows: list[tuple[str]], schema: str) -> _Frame:
        column = schema.split()[0]
        batches = [pa.RecordBatch.from_pydict({column: [row[0]]}) for row in rows]
        return _Frame(self, _Rows(batches))


class _Rows:
    """A source that has its batches."""

    def __init__(self, batches: list[pa.RecordBatch]) -> None:
        self.batches = batches

    def schema(self) -> None:
        return None

    def reader(self, schema: Any) -> _Rows:
        return self

    def partitions(self) -> list[int]:
        return list(range(len(self.batches)))

    def read(self, piece: int) -> Any:
        return iter([self.batches[piece]])


class _Options:
    def __init__(self, session: InProcess) -> None:
        self.session = session
        self.given: dict[str, str] = {}

    def format(self, name: str) -> Any:
        self.name = name
        return self

    def options(self, **given: str) -> Any:
        self.given |= given
        return self

    def source(self) -> Any:
        return self.session.formats[self.name](CaseInsensitive(self.given))


class _Reader(_Options):
    def load(self, path: str | None = None) -> _Frame:
        if path is not None:
            self.given["path"] = path
        return _Frame(self.session, self.source())


class _Frame:
    def __init__(self, session: InProcess, source: Any) -> None:
        self.sparkSession = session
        reader = source.reader(source.schema())
        self.schema = source.schema()
        self.tasks = [(reader, piece) for piece in reader.partitions()]

    @property
    def write(self) -> _Writer:
        return _Writer(self)


class _Writer(_Options):
    def __init__(self, frame: _Frame) -> None:
        super().__init__(frame.sparkSession)
        self.frame = frame

    def mode(self, name: str) -> _Writer:
        self.overwrite = name == "overwrite"
        return self

    def save(self) -> None:
        writer = self.source().writer(self.frame.schema, self.overwrite)
        messages = []
        for task in self.frame.tasks:
            reader, piece, sent = pickle.loads(pickle.dumps((*task, writer)))
            messages.append(pickle.loads(pickle.dumps(sent.write(reader.read(piece)))))
        writer.commit(messages)
