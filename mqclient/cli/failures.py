"""Exit codes and texts for the client's errors."""

from __future__ import annotations

from mqclient.errors import BrokerError, ClientTimeout, RocketMQError, UnreachableError
from mqcommon.cli import exit_codes, running
from mqcommon.cli.running import Failure
from mqcommon.message import DecodeError
from mqcommon.wire.codes import ResponseCode

__all__ = ["failure_of", "is_denied"]


def failure_of(error: Exception) -> Failure | None:
    """The line and the exit code of an error of the client, or of any command."""
    if isinstance(error, RocketMQError):
        return Failure(str(error), _code_of(error))
    return Failure(str(error)) if isinstance(error, DecodeError) else running.failure_of(error)


def is_denied(error: Exception) -> bool:
    """Whether access control of a broker refused the account."""
    return isinstance(error, BrokerError) and (
        error.code == ResponseCode.NO_PERMISSION or "AclException" in error.remark
    )


def _code_of(error: RocketMQError) -> int:
    if is_denied(error):
        return exit_codes.DENIED
    if isinstance(error, UnreachableError | ClientTimeout):
        return exit_codes.UNREACHABLE
    return exit_codes.FAILED
