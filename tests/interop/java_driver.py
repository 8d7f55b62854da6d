"""RocketMQ's Java client in one JVM: `JavaDriver` gives it commands and hears its events."""

from __future__ import annotations

import itertools
import json
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from scripts.java_rocketmq import prepare_home
from scripts.server_process import ServerProcess
from tests.interop.java_servers import java_command

Event = dict[str, Any]


class JavaConsumer:
    """A concurrent push consumer inside the driver's JVM; arriving messages are added to
    `messages`.
    """

    def __init__(self, driver: JavaDriver, command_id: str) -> None:
        self._driver = driver
        self._id = command_id

    @property
    def messages(self) -> list[Event]:
        return self._driver.events(self._id, "message")

    def await_messages(self, count: int, timeout: float = 90.0) -> list[Event]:
        """At least `count` messages; fails, showing what came, when they do not come in time."""
        return self._driver.await_events(self._id, "message", count, timeout)

    def await_bodies(self, bodies: set[str], timeout: float = 90.0) -> None:
        """Each of these at least once; a queue that changes hands may bring some again."""

        def missing() -> set[str]:
            return bodies - {message["body"] for message in self.messages}

        assert self._driver.wait_for(lambda: not missing(), timeout), f"missing: {missing()}"

    def held(self) -> Event:
        """How many "queues" it holds, the "versions" of its subscriptions by topic, and how often
        it has "shared" the queues of a topic with its group.
        """
        return self._driver.call("held", consumer=self._id)

    def stop(self) -> None:
        self._driver.call("stop", consumer=self._id)


class JavaDriver(ServerProcess):
    """A JVM running `Driver.java`; `serialize` is the header form its client speaks.

    prefix: words before the command, which run it elsewhere.
    """

    def __init__(
        self,
        home: Path,
        serialize: str = "JSON",
        flags: tuple[str, ...] = (),
        prefix: Sequence[str] = (),
    ) -> None:
        self.home = home
        self.serialize = serialize
        self._events: list[Event] = []
        self._ids = itertools.count(1)
        self._arrival = threading.Condition()
        prepare_home(home)
        form = f"-Drocketmq.serialize.type={serialize}"
        command = [*prefix, *java_command(home, "Driver", flags=(form, *flags))]
        super().__init__(command, cwd=home)
        try:
            self.await_events("ready", "ready", 1, 120.0)
        except BaseException:
            self.kill()
            raise

    def produce(self, namesrv: str, topic: str, count: int, **options: object) -> list[Event]:
        """Send messages "Hello RocketMQ i"; the SendResults. Options: Producing.java's."""
        values = {"body": "Hello RocketMQ ", "tags": "TagA", **options}
        done = self.call("produce", namesrv=namesrv, topic=topic, count=count, **values)
        results: list[Event] = done["results"]
        return results

    def consume(
        self, namesrv: str, group: str, topic: str, *, tags: str = "*", **options: object
    ) -> JavaConsumer:
        """Start a push consumer that begins at the earliest message."""
        values = {"namesrv": namesrv, "group": group, "topic": topic, "tags": tags, **options}
        return JavaConsumer(self, self.call("consume", **values)["id"])

    def admin(self, *arguments: str) -> str:
        """The output of one mqadmin command."""
        printed: str = self.call("admin", arguments=list(arguments))["printed"]
        return printed

    def call(self, command: str, *, timeout: float = 120.0, **fields: object) -> Event:
        """Run one command to its end; an AssertionError with Java's words when it failed."""
        command_id = str(next(self._ids))
        self.write_line(json.dumps({"id": command_id, "do": command, **fields}))
        event = self.await_events(command_id, ("done", "failed"), 1, timeout)[0]
        assert event["event"] == "done", f"{command} {fields}: {event.get('error')}"
        return event

    def events(self, command_id: str, kinds: str | tuple[str, ...]) -> list[Event]:
        """The events of one command so far."""
        wanted = (kinds,) if isinstance(kinds, str) else kinds
        with self._arrival:
            found = [event for event in self._events if event["id"] == command_id]
        return [event for event in found if event["event"] in wanted]

    def await_events(
        self, command_id: str, kinds: str | tuple[str, ...], count: int, timeout: float
    ) -> list[Event]:
        """Wait until a command has had `count` events of these kinds."""
        if not self.wait_for(lambda: len(self.events(command_id, kinds)) >= count, timeout):
            found = self.events(command_id, kinds)
            raise AssertionError(
                f"{len(found)} of {count} {kinds} in {timeout} s: {found}\n{self.output}"
            )
        return self.events(command_id, kinds)

    def wait_for(self, condition: Callable[[], bool], timeout: float) -> bool:
        """Wait until a condition on the events holds, the JVM ends, or the time is over."""
        deadline = time.monotonic() + timeout
        with self._arrival:
            while not condition():
                left = deadline - time.monotonic()
                if left <= 0 or self._ended:
                    return False
                self._arrival.wait(min(left, 0.5))
        return True

    def _heard(self, line: str) -> None:
        if not line.startswith("{"):
            return super()._heard(line)
        event = json.loads(line)
        with self._arrival:
            self._events.append(event)
            self._arrival.notify_all()
        return None
