"""Keeps a queue waiting while its next message needs a codec that is not installed here.

A handler would fail at the body, and the message would use up its retries and become a dead letter
although nothing is wrong with it.
"""

from importlib import import_module

from mqclient.consumer.pull_answer import PullAnswer
from mqclient.errors import MissingCodecError
from mqcommon.extras import advice
from mqcommon.message import any_has_flags
from mqcommon.wire.codes import MessageSysFlag

__all__ = ["CODEC_PAUSE", "until_missing"]

CODEC_PAUSE = 5.0
"""Seconds until a queue whose next message needs a missing codec is pulled again."""
_TYPE_BITS = 0x700
_LZ4, _ZSTD = int(MessageSysFlag.COMPRESSION_LZ4), int(MessageSysFlag.COMPRESSION_ZSTD)
_MODULES = {_LZ4: "lz4.frame", _ZSTD: "zstandard"}
_ADVICE = {
    _LZ4: advice("lz4", "an LZ4 body"),
    _ZSTD: "a zstd body needs zstandard: pip install zstandard",
}


def until_missing(answer: PullAnswer) -> tuple[PullAnswer, MissingCodecError | None]:
    """The part of an answer before the first message whose codec is missing, and the error."""
    if not any_has_flags(answer.messages, _TYPE_BITS):
        return answer, None
    for at, message in enumerate(answer.messages):
        kind = message.sys_flag & _TYPE_BITS
        if not kind or _is_installed(kind):
            continue
        before = answer.messages[:at]
        size = sum(each.store_size for each in before)
        error = MissingCodecError(
            f"the queue waits at message {message.msg_id}, offset {message.queue_offset}: "
            f"{_ADVICE[kind]}"
        )
        offset = message.queue_offset
        return answer._replace(messages=before, next_offset=offset, size=size), error
    return answer, None


def _is_installed(kind: int) -> bool:
    module = _MODULES.get(kind)
    if module is None:
        return True
    try:
        import_module(module)
    except ImportError:
        return False
    return True
