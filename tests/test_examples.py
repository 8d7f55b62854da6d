"""Every example runs as a user runs it, against a broker, and prints the expected output."""

from __future__ import annotations

import ast
import importlib.util
import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from mqclient import Message, Producer
from mqserver.standalone import Standalone
from mqserver.testing import free_port
from tests.waiting import until

ROOT = Path(__file__).parent.parent
EXAMPLES = ROOT / "examples"
FILES = sorted(EXAMPLES.rglob("*.py"))
LINES_MAX = 80

pytestmark = pytest.mark.timeout(120)


@pytest.fixture(scope="module")
def mq() -> Iterator[Standalone]:
    """A broker of this module's own: the examples choose the names of topics and groups."""
    checks = {"transactionTimeOut": "1000", "transactionCheckInterval": "1000"}
    with Standalone(settings=checks) as standalone:
        yield standalone


class Running:
    """An example in a process of its own, whose warnings are printed. folder: where it runs."""

    def __init__(self, name: str, folder: Path, *arguments: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-W", "always", str(EXAMPLES / name), *arguments],
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> Running:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.communicate()

    def read_until(self, line: str, stream: str = "stdout") -> list[str]:
        """The lines up to one that contains this text."""
        found: list[str] = []
        for text in getattr(self.process, stream):
            found.append(text.rstrip("\n"))
            if line in text:
                return found
        raise AssertionError(f"no {line!r} in {found}; {self.process.communicate()}")

    def stop(self, number: int = signal.SIGTERM) -> list[str]:
        """Send a signal; the rest of the output of a program that ends without a complaint."""
        self.process.send_signal(number)
        return self.end()

    def end(self, code: int = 0) -> list[str]:
        """The rest of the output of a program that ends by itself.

        It may have said that its topic did not exist yet.
        """
        out, err = self.process.communicate()
        complaints = [line for line in err.splitlines() if "until it exists: no route" not in line]
        assert (self.process.returncode, complaints) == (code, []), out
        return out.splitlines()


def run(name: str, mq: Standalone, folder: Path, *arguments: str, code: int = 0) -> list[str]:
    """The output of an example that ends by itself."""
    with Running(name, folder, "--namesrv", mq.namesrv, *arguments) as example:
        return example.end(code)


def send(mq: Standalone, topic: str, *bodies: str) -> None:
    with Producer(mq.namesrv) as producer:
        for body in bodies:
            producer.send(Message(topic, body.encode()))


def bodies(mq: Standalone, topic: str) -> list[str]:
    return sorted(message.body.decode() for message in mq.messages(topic))


# --- what holds for all


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_an_example_is_short_and_says_how_it_is_run(path: Path) -> None:
    text = path.read_text()
    assert len(text.splitlines()) <= LINES_MAX
    words = ast.get_docstring(ast.parse(text)) or ""
    if path.name != "shop.py":
        command = "pytest examples/" if path.parent != EXAMPLES else f"python examples/{path.name}"
        assert command in words


def test_every_example_is_listed_and_run() -> None:
    page = (ROOT / "docs" / "client" / "cookbook.md").read_text()
    tests = Path(__file__).read_text()
    for path in FILES:
        place = path.relative_to(EXAMPLES)
        assert f"\n[{path.name}](../../examples/{place})\n" in page, place
        assert f'"{place.parts[0]}"' in tests, place


# --- each of them


def test_fastapi_service(mq: Standalone, tmp_path: Path) -> None:
    for needed in ("fastapi", "uvicorn"):
        if importlib.util.find_spec(needed) is None:
            pytest.skip(f"{needed} is not installed: pip install {needed}")
    url = f"http://127.0.0.1:{(port := free_port())}/orders"
    order = {"id": "order-1", "amount": 12}
    arguments = ("--namesrv", mq.namesrv, "--port", str(port))
    with Running("fastapi_orders.py", tmp_path, *arguments) as service:
        service.read_until("Uvicorn running", "stderr")
        headers = {"content-type": "application/json"}
        request = urllib.request.Request(url, json.dumps(order).encode(), headers)
        with urllib.request.urlopen(request, timeout=30) as answer:
            assert answer.status == 202
            msg_id = json.load(answer)["msg_id"]

        def handled() -> object:
            with urllib.request.urlopen(url, timeout=30) as answer:
                return json.load(answer)

        assert until(lambda: handled() == [order]), handled()
        service.process.send_signal(signal.SIGTERM)
        service.read_until("Application shutdown complete", "stderr")
    (message,) = mq.messages("WebOrders")
    assert (message.msg_id, message.keys) == (msg_id, ("order-1",))
    mq.wait_consumed("web_orders", "WebOrders")


def test_worker_finishes_the_job_in_hand(mq: Standalone, tmp_path: Path) -> None:
    with Running("worker.py", tmp_path, "--namesrv", mq.namesrv) as worker:
        worker.read_until("waiting for jobs")
        send(mq, "Jobs", "resize 1.png")
        worker.read_until("began resize 1.png")
        assert worker.stop() == [
            "finished resize 1.png",
            "stopped: every job that began is finished and committed",
        ]
    mq.wait_consumed("workers", "Jobs")


def test_outbox(mq: Standalone, tmp_path: Path) -> None:
    sent = run("outbox.py", mq, tmp_path, "order-1", "order-2")
    assert sent == [
        "order-1 is in the database, and its message is sent",
        "order-2 is in the database, and its message is sent",
    ]
    crashed = run("outbox.py", mq, tmp_path, "--crash", "order-3", code=1)
    assert crashed == ["order-3 is in the database; the process dies"]
    assert bodies(mq, "OrdersPlaced") == ["order-1 was placed", "order-2 was placed"]
    asked = run("outbox.py", mq, tmp_path, "--wait")
    assert asked == ["the broker asked for order-3: COMMIT"]
    assert until(lambda: len(bodies(mq, "OrdersPlaced")) == 3)
    with closing(sqlite3.connect(tmp_path / "orders.db")) as database:
        assert database.execute("select count(*) from orders").fetchone() == (3,)


def test_ordered_orders(mq: Standalone, tmp_path: Path) -> None:
    mq.topic("OrderSteps", queues=8)
    *steps, last = run("ordered_orders.py", mq, tmp_path)
    assert last == "every order was created, paid and shipped, in this order"
    for number in range(1, 6):
        order = f"order-{number} is "
        mine = [step.removeprefix(order) for step in steps if step.startswith(order)]
        assert mine == ["created", "paid", "shipped"]
    used = {message.queue_id for message in mq.messages("OrderSteps")}
    assert len(used) > 1, "the orders share out over queues"


def test_request_reply(mq: Standalone, tmp_path: Path) -> None:
    with Running("request_reply.py", tmp_path, "--namesrv", mq.namesrv, "serve") as server:
        server.read_until("waiting for requests")
        rates = run("request_reply.py", mq, tmp_path, "ask", "--timeout", "60", "USD", "XXX")
        assert rates == ["USD: 1.08", "XXX: unknown"]
        assert server.stop(signal.SIGINT) == ["answered USD", "answered XXX"]
    arguments = ("--namesrv", mq.namesrv, "ask", "--timeout", "0.2", "CHF")
    with Running("request_reply.py", tmp_path, *arguments) as client:
        out, err = client.process.communicate()
    assert (client.process.returncode, out) == (1, "")
    assert re.fullmatch(r"CHF: .*no reply.*\n", err)


def test_etl_loads_each_message_once(mq: Standalone, tmp_path: Path) -> None:
    send(mq, "Clicks", *(f"page {number}" for number in range(5)))
    mq.wait_dispatched()
    assert run("etl.py", mq, tmp_path) == ["loaded 5 messages; the table has 5 rows"]
    mq.wait_consumed("clicks_etl", "Clicks")
    send(mq, "Clicks", "page 5")
    mq.wait_dispatched()
    assert run("etl.py", mq, tmp_path) == ["loaded 1 messages; the table has 6 rows"]
    with closing(sqlite3.connect(tmp_path / "clicks.db")) as database:
        rows = database.execute("select body from clicks order by body").fetchall()
    assert rows == [(f"page {number}",) for number in range(6)]


def test_cache_invalidation(mq: Standalone, tmp_path: Path) -> None:
    mq.topic("PriceChanges")
    *lines, last = run("cache_invalidation.py", mq, tmp_path)
    assert last == "both caches have the new price"
    for cache in ("cache 1", "cache 2"):
        assert [line.removeprefix(f"{cache} ") for line in lines if line.startswith(cache)] == [
            "reads the price of tea: 3",
            "drops the price of tea",
            "reads the price of tea: 5",
        ]


def test_dead_letters(mq: Standalone, tmp_path: Path) -> None:
    send(mq, "Payments", "12 EUR")
    arguments = ("--namesrv", mq.namesrv, "work")
    with Running("dead_letters.py", tmp_path, *arguments, "--bank-is-down") as worker:
        lines = worker.read_until("try 3 of")
        wanted = [f"try {number} of 12 EUR failed" for number in (1, 2, 3)]
        assert [line for line in lines if "try" in line] == wanted
        worker.process.send_signal(signal.SIGTERM)
        worker.process.communicate()
    assert bodies(mq, "%DLQ%payments") == ["12 EUR"]
    assert run("dead_letters.py", mq, tmp_path, "replay") == ["sent 12 EUR to Payments again"]
    mq.wait_consumed("payments_replay", "%DLQ%payments")
    with Running("dead_letters.py", tmp_path, *arguments) as worker:
        worker.read_until("paid 12 EUR")
        assert worker.stop() == []
    mq.wait_consumed("payments", "Payments")


def test_reminders_arrive_when_they_are_due(mq: Standalone, tmp_path: Path) -> None:
    lines = run("reminders.py", mq, tmp_path, "5s=tea", "1s=stretch")
    assert [line.partition(": ")[2] for line in lines] == ["stretch", "tea"]
    waits = [float(line.split()[1]) for line in lines]
    assert waits[0] >= 1.0
    assert waits[1] >= 5.0
    wrong = [sys.executable, str(EXAMPLES / "reminders.py"), "7s=tea"]
    refused = subprocess.run(wrong, capture_output=True, text=True)
    assert refused.returncode == 2
    assert "'7s=tea'" in refused.stderr


def test_pytest_project() -> None:
    project = EXAMPLES / "pytest_project"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(project)]
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    tests = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert tests.returncode == 0, tests.stdout
    assert "4 passed" in tests.stdout
