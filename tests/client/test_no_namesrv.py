"""Without a NameServer, the first call that needs one raises the same error in every client."""

import asyncio
from operator import attrgetter

import pytest

import mqclient
from mqclient import Message, UnreachableError, aio
from mqserver.embedded.testing import free_port


def push(package, namesrv):
    consumer = package.PushConsumer("g", namesrv)
    consumer.subscribe("T", "*", print)
    return consumer, "start", ()


def lite(package, namesrv):
    consumer = package.LitePullConsumer("g", namesrv)
    consumer.subscribe("T")
    return consumer, "start", ()


def producer(package, namesrv):
    return package.Producer(namesrv), "send", (Message("T", b"x"),)


def admin(package, namesrv):
    return package.Admin(namesrv), "topics.names", ()


@pytest.mark.parametrize("make", [push, lite, producer, admin])
@pytest.mark.parametrize("face", ["sync", "aio"])
def test_the_first_call_that_needs_one_names_the_addresses(make, face):
    namesrv = f"127.0.0.1:{free_port()}"
    client, method, arguments = make(aio if face == "aio" else mqclient, namesrv)

    async def use():
        if method != "start":
            await client.start()
        try:
            await attrgetter(method)(client)(*arguments)
        finally:
            await client.close()

    def use_blocking():
        if method != "start":
            client.start()
        try:
            attrgetter(method)(client)(*arguments)
        finally:
            client.close()

    with pytest.raises(UnreachableError, match=rf"no NameServer answers \({namesrv}: .*check that"):
        asyncio.run(use()) if face == "aio" else use_blocking()
