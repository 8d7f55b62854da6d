"""The page of options, and the help of the clients, come from the declarations."""

from __future__ import annotations

import inspect
import pydoc
import re
from abc import ABC
from typing import Any
from unittest.mock import create_autospec

import pytest

import mqclient
from mqclient import aio
from mqclient.settings.declare import Declared, rows
from scripts.client_options_page import CLIENTS, VALUES

NAMES_MAX = 37
SCREEN_LINES, SCREEN_COLUMNS = 60, 100
"""A terminal that fills a screen."""
KINDS: list[type[Declared]] = [*(kind for kind, _, _ in CLIENTS.values()), *VALUES]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_each_option_is_explained_and_exported(kind: type[Declared]) -> None:
    for row in rows(kind):
        assert row.option.about and not row.option.about.endswith("."), row.name
        assert row.option.unit or row.hint is not float, f"{row.name} has no unit"
    assert getattr(mqclient, kind.__name__) is getattr(aio, kind.__name__) is kind


def test_there_are_few_names() -> None:
    names = {row.name for kind, _, _ in CLIENTS.values() for row in rows(kind)}
    assert len(names) <= NAMES_MAX, sorted(names)


@pytest.mark.parametrize("face", [mqclient, aio])
@pytest.mark.parametrize(
    ("client", "kind"),
    [
        ("Admin", mqclient.AdminOptions),
        ("LitePullConsumer", mqclient.LitePullOptions),
        ("Producer", mqclient.ProducerOptions),
        ("PushConsumer", mqclient.PushOptions),
        ("TransactionProducer", mqclient.TransactionOptions),
    ],
)
def test_constructors_show_every_option(face: Any, client: str, kind: type[Declared]) -> None:
    shown = inspect.signature(getattr(face, client)).parameters
    assert [*shown] == [row.name for row in rows(kind)]
    assert {name: item.default for name, item in shown.items()} == {
        row.name: inspect.Parameter.empty if row.required else row.default for row in rows(kind)
    }
    text = inspect.getdoc(getattr(face, client)) or ""
    assert all(row.name in text for row in rows(kind))


CLIENT_NAMES = ("Admin", "LitePullConsumer", "Producer", "PushConsumer", "TransactionProducer")


@pytest.mark.parametrize("face", [mqclient, aio])
@pytest.mark.parametrize("client", CLIENT_NAMES)
def test_help_fits_two_screens(face: Any, client: str) -> None:
    text = pydoc.plain(pydoc.render_doc(getattr(face, client)))
    lines = [1 + max(0, len(line) - 1) // SCREEN_COLUMNS for line in text.splitlines()]
    assert sum(lines) <= 2 * SCREEN_LINES, text


@pytest.mark.parametrize("face", [mqclient, aio])
@pytest.mark.parametrize("client", CLIENT_NAMES)
def test_help_names_every_method_and_has_its_text(face: Any, client: str) -> None:
    kind = getattr(face, client)
    text = pydoc.plain(pydoc.render_doc(kind))
    for name, method in inspect.getmembers(kind, inspect.isfunction):
        if not name.startswith("_"):
            assert re.search(rf"^ \|    {name}: \S", text, re.MULTILINE), name
            last = (inspect.getdoc(method) or "").splitlines()[-1]
            assert last in pydoc.plain(pydoc.render_doc(method)), name


def test_help_of_a_subclass_shows_its_own_methods() -> None:
    class Orders(mqclient.PushConsumer):
        """Reads orders."""

        def replay(self) -> None:
            """Read all again."""

    text = pydoc.plain(pydoc.render_doc(Orders))
    assert "Read all again." in text and "seek(self, queue" in text


@pytest.mark.parametrize("face", [mqclient, aio])
def test_help_shows_the_options_once_and_no_machinery(face: Any) -> None:
    for client in (face.Producer, face.PushConsumer, face.LitePullConsumer, face.Admin):
        text = pydoc.plain(pydoc.render_doc(client))
        assert text.count("namesrv: str | list[str] | None = None") == 1
        assert not re.findall(r"__(?:init|dict|weakref|annotations|del|repr)__", text)


def test_a_mock_of_a_client_has_its_methods() -> None:
    producer = create_autospec(mqclient.Producer, instance=True)
    with producer as entered:
        entered.send("x")
    assert producer.__enter__.called


def test_a_subclass_of_a_client_may_be_abstract() -> None:
    class Named(mqclient.Producer, ABC):
        pass

    assert Named(transport=mqclient.MockTransport()).state == "new"
