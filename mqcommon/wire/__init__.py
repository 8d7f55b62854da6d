"""RocketMQ's remoting protocol without IO: frames, codes, headers, bodies, calls.

Names are imported on first use, because the servers' start needs only the codes.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mqcommon.wire.codes import LanguageCode, RequestCode, ResponseCode, SerializeType
    from mqcommon.wire.frame import Frame, FrameError, decode, encode

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
        raise AttributeError(f"module 'mqcommon.wire' has no attribute {name!r}")
    home = "frame" if name in _OF_FRAMES else "codes"
    value = getattr(import_module(f"mqcommon.wire.{home}"), name)
    globals()[name] = value
    return value
