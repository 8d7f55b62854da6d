"""State of a master that only its slaves of mqstack copy; RocketMQ's copy less."""

from mqcommon.wire.bodies.base import Body


class SlaveState(Body):
    """The reply to GET_SLAVE_STATE (30000).

    consumer_filter: the text of consumerFilter.json, empty if it fits no reply. deletions: topics
    whose messages were deleted, as JSON (`mqstore.Store.deletions`).
    """

    consumer_filter: str = ""
    deletions: str = ""
