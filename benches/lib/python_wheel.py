"""The PyPI wheel `rocketmq`: a Python wrapper of RocketMQ's C++ client.

The driver below runs in a separate virtual environment and does not import this project.
"""

import os
import subprocess
import venv
from pathlib import Path

__all__ = ["Wheel", "WheelMissing"]

WHEEL = "rocketmq==0.4.4"
DEADLINE_SECONDS = 120.0

DRIVER = """
import sys, threading, time
from rocketmq.client import Message, Producer, PushConsumer

def message(topic):
    made = Message(topic)
    made.set_body(b"x" * 1024)  # the wheel passes a C string: no zero bytes
    return made

def send(namesrv, topic, threads, seconds):
    threads, seconds = int(threads), float(seconds)
    producer = Producer("wheel_producer")
    producer.set_namesrv_addr(namesrv)
    producer.start()
    producer.send_sync(message(topic))
    sent, started = [0] * threads, time.monotonic()
    def sender(number):
        while time.monotonic() < started + seconds:
            producer.send_sync(message(topic))
            sent[number] += 1
    running = [threading.Thread(target=sender, args=(n,)) for n in range(threads)]
    for thread in running: thread.start()
    for thread in running: thread.join()
    print("RATE", sum(sent) / (time.monotonic() - started), flush=True)

def consume(namesrv, topic, messages, group):
    seen, read, started, done, lock = 0, 0, 0.0, threading.Event(), threading.Lock()
    def handle(received):
        nonlocal seen, read, started
        began = time.monotonic()
        read_here = len(received.body) + len(received.get_property("UNIQ_KEY") or b"")
        with lock:
            started = min(started or began, began)
            seen += 1
            read += read_here
            if seen >= int(messages): done.set()
    consumer = PushConsumer(group)
    consumer.set_namesrv_addr(namesrv)
    consumer.subscribe(topic, handle)
    consumer.start()
    if not done.wait(60): print("received only", seen, "of", messages, flush=True)
    else: print("RATE", seen / (time.monotonic() - started), flush=True)

{"send": send, "consume": consume}[sys.argv[1]](*sys.argv[2:])
import os
os._exit(0)  # the wheel's threads may not end
"""


class WheelMissing(Exception):
    """The wheel cannot be installed or does not run; the text gives the reason."""


class Wheel:
    """The wheel, installed under `folder`. Raises WheelMissing."""

    def __init__(self, folder: Path) -> None:
        self._home = folder / "home"  # the wheel writes its logs there
        self._home.mkdir(parents=True)
        self._driver = folder / "driver.py"
        self._driver.write_text(DRIVER)
        self._python = folder / "venv" / "bin" / "python"
        venv.create(folder / "venv", with_pip=True)
        pip = [str(self._python), "-m", "pip", "install", "--quiet", "--no-input", WHEEL]
        done = subprocess.run(pip, capture_output=True, text=True, check=False)
        if done.returncode:
            raise WheelMissing(f"pip install {WHEEL}: {_last_line(done.stderr)}")
        probe = [str(self._python), "-c", "import rocketmq.client"]
        done = subprocess.run(probe, capture_output=True, text=True, check=False)
        if done.returncode:
            raise WheelMissing(f"import rocketmq: {_last_line(done.stderr)}")
        self._groups = 0

    def send(self, namesrv: str, topic: str, threads: int, seconds: float) -> float:
        """Messages per second of threads that share a producer and wait for each send."""
        return self._run("send", namesrv, topic, str(threads), str(seconds))

    def consume(self, namesrv: str, topic: str, messages: int) -> float:
        """Messages per second, from the first handled message to the last one of the backlog."""
        self._groups += 1
        group = f"bench_wheel_{os.getpid()}_{self._groups}"
        return self._run("consume", namesrv, topic, str(messages), group)

    def _run(self, *arguments: str) -> float:
        try:
            done = subprocess.run(
                [str(self._python), str(self._driver), *arguments],
                capture_output=True,
                text=True,
                check=False,
                timeout=DEADLINE_SECONDS,
                env={**os.environ, "HOME": str(self._home)},
            )
        except subprocess.TimeoutExpired:
            raise WheelMissing(f"{arguments[0]} did not end") from None
        rates = [line.split()[1] for line in done.stdout.splitlines() if line.startswith("RATE")]
        if not rates:
            text = done.stdout + done.stderr
            raise WheelMissing(f"{arguments[0]} failed ({done.returncode}): {_last_line(text)}")
        return float(rates[0])


def _last_line(text: str) -> str:
    return (text.strip().splitlines() or ["no output"])[-1]
