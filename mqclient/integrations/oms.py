"""OpenMessaging's access points: NameServers and a namespace in one URL."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from mqclient.engine.namespace import check_namespace
from mqclient.settings.checks import namesrv_addresses

__all__ = ["AccessPoint"]

C = TypeVar("C")
FORM = "oms:rocketmq://HOST:PORT[,HOST:PORT][/NAMESPACE]"
_URL = re.compile(r"oms:rocketmq://([^/?#]+)(?:/([^?#]*))?")


@dataclass(frozen=True, slots=True)
class AccessPoint:
    """Where clients connect.

    namesrv: NameServers as "host:port". namespace: None without one.

    >>> AccessPoint.read("oms:rocketmq://10.0.0.1:9876,10.0.0.2:9876/shop").namespace
    'shop'
    """

    namesrv: tuple[str, ...]
    namespace: str | None = None

    @classmethod
    def read(cls, url: str) -> AccessPoint:
        """Read a url "oms:rocketmq://host:port,host:port/namespace".

        Raises ValueError, TypeError.
        """
        if not isinstance(url, str):
            raise TypeError(f"an access point must be str, not {type(url).__name__}")
        parts = _URL.fullmatch(url.strip())
        if parts is None:
            raise ValueError(f"{url!r} is no access point; give {FORM}")
        hosts, namespace = parts[1], (parts[2] or "").rstrip("/")
        if "@" in hosts:
            raise ValueError(
                f"the access point names an account; leave it out ({FORM}), and pass "
                "credentials=Credentials(...) to the client"
            )
        return cls(namesrv_addresses(hosts), check_namespace(namespace) if namespace else None)

    def make(self, kind: Callable[..., C], *arguments: Any, **options: Any) -> C:
        """Make a client of this access point.

        kind: the client's class, blocking or asyncio. arguments, options: as for the class, without
        the NameServer. Raises the class's errors, and ValueError if it cannot work in a namespace.

            AccessPoint.read("oms:rocketmq://127.0.0.1:9876").make(PushConsumer, "order_readers")
        """
        if self.namespace is not None:
            if not _takes_namespace(kind):
                name = getattr(kind, "__name__", str(kind))
                raise ValueError(
                    f"{name} cannot work in a namespace; leave /{self.namespace} out of the access "
                    "point, and write it into the names of topics and groups: NAMESPACE%TOPIC"
                )
            options = {"namespace": self.namespace, **options}
        return kind(*arguments, namesrv=list(self.namesrv), **options)


def _takes_namespace(kind: Callable[..., Any]) -> bool:
    parameters = inspect.signature(kind).parameters
    takes_any = any(item.kind is item.VAR_KEYWORD for item in parameters.values())
    return takes_any or "namespace" in parameters
