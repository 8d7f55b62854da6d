"""Asks an HTTP address server where the NameServers are.

RocketMQ's rule: `http://DOMAIN:8080/rocketmq/SUBGROUP`, whose body is "host:port;host:port". The
answer is small and must come soon. Any other answer is refused, and the caller keeps the
list that it has.
"""

import re
import time
from urllib.parse import urlsplit

from mqclient.errors import AddressServerError
from mqclient.settings.checks import namesrv_addresses

__all__ = ["FIRST_S", "PERIOD_S", "AddressServerError", "address_server_url", "fetch_addresses"]

FIRST_S, PERIOD_S = 10.0, 120.0
"""Seconds until the server is asked again: the first time, and after that."""
TIMEOUT_S = 3.0
BODY_BYTES_MAX = 64 * 1024
_ADDRESS = re.compile(r"[^\s/,]+:\d{1,5}")


def address_server_url(domain: str, subgroup: str, unit: str | None = None) -> str:
    """The URL of a list. domain: host and optional port (8080). unit: of the client, or ""."""
    port = "" if ":" in domain else ":8080"
    suffix = f"-{unit}?nofix=1" if unit else ""
    return f"http://{domain}{port}/rocketmq/{subgroup}{suffix}"


def fetch_addresses(url: str, timeout: float = TIMEOUT_S) -> tuple[str, ...]:
    """Ask an address server, blocking; NameServers as "host:port".

    timeout: seconds in total. Raises AddressServerError, also for an empty or invalid answer.
    """
    try:
        body = _body(url, timeout)
        parts = [part.strip() for part in body.decode("ascii").split(";")]
        strange = next((part for part in parts if not _ADDRESS.fullmatch(part)), None)
        if strange is not None:
            raise ValueError(f"{strange[:80]!r} is not host:port")
        return namesrv_addresses(parts)
    except UnicodeDecodeError:
        raise AddressServerError(
            f"address server {url} answered with bytes that are no text"
        ) from None
    except ValueError as error:
        raise AddressServerError(
            f"address server {url} answered without addresses: {error}"
        ) from None


def _body(url: str, timeout: float) -> bytes:
    from http.client import HTTPConnection, HTTPException  # late: most clients need no HTTP

    parts = urlsplit(url)
    path = parts.path + (f"?{parts.query}" if parts.query else "")
    deadline = time.monotonic() + timeout
    connection = HTTPConnection(parts.hostname or "", parts.port or 80, timeout=timeout)
    try:
        connection.request("GET", path or "/")
        answer = connection.getresponse()
        body = b""
        while len(body) <= BODY_BYTES_MAX and (piece := answer.read1(BODY_BYTES_MAX)):
            body += piece
            if time.monotonic() > deadline:
                raise TimeoutError(f"not done after {timeout:g} s")
    except (OSError, HTTPException) as error:
        reason = str(error) or type(error).__name__
        raise AddressServerError(f"address server {url} does not answer: {reason}") from error
    finally:
        connection.close()
    if answer.status != 200:
        raise AddressServerError(f"address server {url} answered HTTP status {answer.status}")
    if len(body) > BODY_BYTES_MAX:
        raise AddressServerError(f"address server {url} answered over {BODY_BYTES_MAX} bytes")
    return body
