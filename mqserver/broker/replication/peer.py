"""Requests of a broker to the other brokers of its name, and to NameServers for their addresses."""

from __future__ import annotations

from pathlib import Path

from mqclient.engine.credentials import read_credentials
from mqclient.engine.transport import Transport
from mqclient.settings.identity import account_of
from mqserver.config.settings import BrokerSettings
from mqserver.tls.certificates import client_tls

ACCOUNT = "conf/tools.yml"
"""The file of the account that signs, below `rocketmqHome`; RocketMQ's tools read it too."""


def transport(settings: BrokerSettings) -> Transport:
    """A transport that uses TLS with `useTLS`, and signs requests with `aclEnable`.

    Without the file of an account it does not sign; the other broker then needs the address of this
    one in its white list. Raises ValueError and OSError for a file that cannot be used.
    """
    tls = client_tls(settings.client_tls) if settings.use_tls else None
    if not settings.acl_enable:
        return Transport(tls=tls)
    path = Path(settings.rocketmq_home).expanduser() / ACCOUNT
    account = read_credentials(path) if path.is_file() else None
    if account is None:
        return Transport(tls=tls)
    return Transport(tls=tls, **account_of(account))
