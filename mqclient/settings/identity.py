"""Who a client is: its account, and its id. A client of any kind imports them, unlike `values`."""

from dataclasses import KW_ONLY
from typing import Annotated, TypedDict

from mqclient.settings.declare import Declared, Option, declared

__all__ = ["Account", "ClientId", "Credentials", "account_of"]


class Account(TypedDict, total=False):
    """An account's keys, as arguments of a transport."""

    access_key: str
    secret_key: str
    security_token: str


@declared
class Credentials(Declared):
    """The account that signs a client's requests, for brokers with access control.

    Credentials("admin", "12345678")
    """

    access_key: Annotated[str, Option("name of the account")]
    secret_key: Annotated[str, Option("secret of the account", secret=True)]
    security_token: Annotated[
        str | None, Option("token of the account, sent with each signed request", secret=True)
    ] = None

    def _check(self) -> None:
        if not self.access_key or not self.secret_key:
            raise ValueError("access_key and secret_key must not be empty")


def account_of(credentials: Credentials) -> Account:
    """The keys, as arguments of a transport."""
    account: Account = {
        "access_key": credentials.access_key,
        "secret_key": credentials.secret_key,
    }
    if credentials.security_token:
        account["security_token"] = credentials.security_token
    return account


@declared
class ClientId(Declared):
    """The parts of the id "ip@instance[@unit]" under which brokers know a client."""

    _: KW_ONLY
    ip: Annotated[
        str | None, Option("first part; None takes the address of the outgoing interface")
    ] = None
    instance: Annotated[
        str | None, Option('second part; None takes "pid#nanotime", which is unique')
    ] = None
    unit: Annotated[str | None, Option("optional last part")] = None
