"""The tables for those who come from another client name what exists here."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import mqclient
from mqclient import Admin, ReceivedMessage, RocketMQError, SendResult, TransactionProducer

PAGE = Path(__file__).parents[2] / "docs" / "client" / "coming-from.md"
CLIENTS = {"rocketmq-client-python", "aiokafka", "confluent-kafka", "nats-py"}
KINDS = [kind for name in mqclient.__all__ if inspect.isclass(kind := getattr(mqclient, name))]
ADMIN = Admin("127.0.0.1:9876")
ROOMS = {name: room for name, room in vars(ADMIN).items() if not name.startswith("_")}
CALLABLES = {*mqclient.__all__, *(name for kind in KINDS for name in dir(kind))}
OWNERS = {
    "message": ReceivedMessage,
    "result": SendResult,
    "error": RocketMQError,
    "producer": TransactionProducer,
}
WORDS = {"None", "True", "False"}


def arguments() -> set[str]:
    functions = [*KINDS, *(getattr(kind, name) for kind in KINDS for name in dir(kind))]
    found: set[str] = set()
    for function in functions:
        if callable(function) and not getattr(function, "__name__", "_").startswith("_"):
            try:
                found |= set(inspect.signature(function).parameters)
            except (TypeError, ValueError):  # the arguments of some built-ins are not known
                continue
    return found


ARGUMENTS = arguments()


def rows() -> Iterator[tuple[str, str]]:
    """The client of each row, and what the row names here."""
    client = ""
    for line in PAGE.read_text().splitlines():
        if line.startswith("## "):
            client = line[3:]
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if len(cells) == 3 and cells[0] not in ("there", "---"):
            yield client, " ".join(re.findall(r"`([^`]+)`", cells[1]))


def test_every_client_has_a_table() -> None:
    counts = {client: [name for name, _ in rows()].count(client) for client in CLIENTS}
    assert min(counts.values()) > 20, counts


@pytest.mark.parametrize("client", sorted(CLIENTS))
def test_what_a_row_names_exists(client: str) -> None:
    for here in (here for name, here in rows() if name == client):
        code = re.sub(r'"[^"]*"', "''", here)
        for room, method in re.findall(r"\b(topics|offsets|resets)\.(\w+)\(", code):
            assert hasattr(ROOMS[room], method), here
        for owner, name in re.findall(r"\b(message|result|error|producer)\.(\w+)", code):
            assert hasattr(OWNERS[owner], name), here
        for name in re.findall(r"(?<![.\w])([a-z]\w*)\(", code):
            assert name in CALLABLES, f"{name}: {here}"
        for name in re.findall(r"\b([a-z]\w+)=", code):
            assert name in ARGUMENTS, f"{name}=: {here}"
        for name in re.findall(r"(?<![.\w])([A-Z]\w+)", code):
            assert name in WORDS or hasattr(mqclient, name), f"{name}: {here}"
