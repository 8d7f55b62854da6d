"""State files of rows by name: a row that cannot be read is set aside, the others are kept."""

from __future__ import annotations

import logging
from typing import Generic, NamedTuple, TypeVar

from mqclient.wire.bodies.base import Body, BodyError
from mqclient.wire.bodies.groups import SubscriptionGroupConfig, SubscriptionGroupWrapper
from mqclient.wire.bodies.topics import TopicConfig, TopicConfigSerializeWrapper
from mqstore import fastjson

Wrapper = TypeVar("Wrapper", bound=Body)

log = logging.getLogger("mqserver.broker")


class Kind(NamedTuple, Generic[Wrapper]):
    """A state file. wrapper: its whole body. rows: the JSON name of its table of `row`."""

    file: str
    wrapper: type[Wrapper]
    rows: str
    row: type[Body]

    def check(self, text: bytes) -> None:
        """Raises BodyError where nothing of the file can be used."""
        self._split(text)

    def read(self, text: bytes) -> Wrapper:
        """What can be used of the file; each row that cannot is logged with its text.

        Raises BodyError as `check` does.
        """
        wrapper, aside = self._split(text)
        for name, (row, reason) in aside.items():
            log.error("%s: %s is set aside (%s): %s", self.file, name, reason, fastjson.dumps(row))
        return wrapper

    def _split(self, text: bytes) -> tuple[Wrapper, dict[str, tuple[object, str]]]:
        try:
            return self.wrapper.from_json(text), {}
        except BodyError:
            plain = _object(text)
            rows = plain.get(self.rows) if plain is not None else None
            if plain is None or not isinstance(rows, dict):
                raise
            aside = {}
            for name, row in rows.items():
                try:
                    self.row.from_plain(row)
                except BodyError as error:
                    aside[str(name)] = (row, str(error))
            if len(aside) in (0, len(rows)):
                raise
        kept = {name: row for name, row in rows.items() if str(name) not in aside}
        return self.wrapper.from_plain({**plain, self.rows: kept}), aside


def _object(text: bytes) -> dict[str, object] | None:
    try:
        plain = fastjson.loads(text)
    except ValueError:
        return None
    return plain if isinstance(plain, dict) else None


TOPICS = Kind("topics.json", TopicConfigSerializeWrapper, "topicConfigTable", TopicConfig)
GROUPS = Kind(
    "subscriptionGroup.json",
    SubscriptionGroupWrapper,
    "subscriptionGroupTable",
    SubscriptionGroupConfig,
)
