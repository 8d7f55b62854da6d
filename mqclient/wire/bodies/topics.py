"""Bodies about topics, under their older path; see `mqcommon.wire.bodies.topics`."""

from mqcommon.wire.bodies.topics import TopicConfig

__all__ = ["TopicConfig"]
