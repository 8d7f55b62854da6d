"""Exit codes and texts for the client's errors."""

from __future__ import annotations

from mqclient.errors import BrokerError, ClientTimeout, RocketMQError, UnreachableError
from mqcommon.cli import exit_codes, running
from mqcommon.cli.running import Failure
from mqcommon.message import DecodeError
from mqcommon.wire.codes import ResponseCode

__all__ = ["failure_of"]


def failure_of(error: Exception) -> Failure | None:
    """The line and the exit code of an error of the client, or of any command."""
    if isinstance(error, RocketMQError):
        return Failure(str(error), _code_of(error))
    return Failure(str(error)) if isinstance(error, DecodeError) else running.failure_of(error)


def _code_of(error: RocketMQError) -> int:
    if isinstance(error, BrokerError):
        is_denied = error.code == ResponseCode.NO_PERMISSION or "AclException" in error.remark
        return exit_codes.DENIED if is_denied else exit_codes.FAILED
    if isinstance(error, UnreachableError | ClientTimeout):
        return exit_codes.UNREACHABLE
    return exit_codes.FAILED
