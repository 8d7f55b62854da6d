"""RocketMQ's remoting protocol, under its older path; see `mqcommon.wire`."""

from mqcommon.wire import (
    Frame,
    FrameError,
    LanguageCode,
    RequestCode,
    ResponseCode,
    SerializeType,
    decode,
    encode,
)

__all__ = [
    "Frame",
    "FrameError",
    "LanguageCode",
    "RequestCode",
    "ResponseCode",
    "SerializeType",
    "decode",
    "encode",
]
