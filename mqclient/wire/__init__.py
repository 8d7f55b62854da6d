"""RocketMQ's remoting protocol without IO: frames, codes, headers, bodies, calls.

Names are imported on first use, because the servers' start needs only the codes.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
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

_OF_FRAMES = ("Frame", "FrameError", "decode", "encode")


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module 'mqclient.wire' has no attribute {name!r}")
    home = "frame" if name in _OF_FRAMES else "codes"
    value = getattr(import_module(f"mqclient.wire.{home}"), name)
    globals()[name] = value
    return value
