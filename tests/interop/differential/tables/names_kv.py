"""NameServer: key-values (100, 101, 102, 219) and its configuration (318, 319)."""

from __future__ import annotations

from tests.interop.differential.case import Case, spoiled


def ask(name: str, code: int, body: bytes = b"", **fields: str) -> Case:
    return Case(name, code, fields or None, body, server="namesrv")


PUT = ask("put", 100, namespace="NS", key="k", value="v1")
GET = ask("get", 101, namespace="NS", key="k")
DELETE = ask("delete", 102, namespace="NS", key="k")
LIST = ask("list", 219, namespace="NS")

CASES = [
    ask("get before any", 101, namespace="NS", key="k"),
    ask("list before any", 219, namespace="NS"),
    PUT,
    GET,
    LIST,
    ask("put again", 100, namespace="NS", key="k", value="v2"),
    ask("get again", 101, namespace="NS", key="k"),
    ask("put text", 100, namespace="NS", key="键", value='"{}\\ \t é'),
    ask("get text", 101, namespace="NS", key="键"),
    ask("list both", 219, namespace="NS"),
    *spoiled(PUT, words=("namespace", "key")),
    PUT.but("put; empty value", value="", key="empty"),
    PUT.but("put; no value", value=None, key="none"),
    ask("get empty value", 101, namespace="NS", key="empty"),
    ask("get no value", 101, namespace="NS", key="none"),
    *spoiled(GET, words=("namespace", "key")),
    *spoiled(LIST, words=("namespace",)),
    ask("list after bad puts", 219, namespace="NS"),
    *spoiled(DELETE, words=("namespace", "key")),
    DELETE,
    ask("get deleted", 101, namespace="NS", key="k"),
    ask("delete deleted", 102, namespace="NS", key="k"),
    ask("delete in unknown namespace", 102, namespace="NoSuch", key="k"),
    ask("get config", 319),
    ask("get config; fields", 319, noSuchField="1"),
    ask("update config", 318, b"orderMessageEnable=true\n"),
    ask("update config back", 318, b"orderMessageEnable=false"),
    ask("update config; empty body", 318),
    ask("update config; unknown key", 318, b"noSuchKey=1"),
    ask("update config; refused key", 318, b"kvConfigPath=/x"),
    ask("update config; refused path", 318, b"configStorePath=/x"),
    ask("update config; home", 318, b"rocketmqHome=/x"),
    ask("update config; no text", 318, b"\xff\xfe\x00"),
    ask("update config; wrong type", 318, b"orderMessageEnable=maybe"),
    ask("update config; no pair", 318, b"orderMessageEnable"),
]
