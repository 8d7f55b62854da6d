"""RocketMQ's remoting protocol without IO: frames, codes, headers, bodies, calls."""

from mqclient.wire.codes import LanguageCode, RequestCode, ResponseCode, SerializeType
from mqclient.wire.frame import Frame, FrameError, decode, encode

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
