"""A connected client, as a member of producer or consumer groups."""

from __future__ import annotations

from msgspec import Struct

from mqcommon.wire.bodies.groups import Connection
from mqcommon.wire.codes import LanguageCode


class Member(Struct, frozen=True):
    """One client on one connection. seen: monotonic seconds of its last heartbeat."""

    client_id: str
    connection: int
    remote: str
    language: int
    version: int
    seen: float

    def as_connection(self) -> Connection:
        """The member in the form of codes 203 and 204."""
        return Connection(self.client_id, self.remote, language_name(self.language), self.version)


def language_name(language: int) -> str:
    """RocketMQ's name for a language ordinal."""
    try:
        return LanguageCode(language).name
    except ValueError:
        return LanguageCode.OTHER.name
