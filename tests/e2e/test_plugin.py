"""The pytest plugin, in a pytest of its own: fixtures are lazy, and the broker is real."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

USES = """
def test_nothing_is_imported_before_a_fixture_is_used():
    import sys
    assert "mqserver.embedded.standalone" not in sys.modules
    assert "mqcommon._core" not in sys.modules

def test_order_is_sent(mq_broker, mq_namesrv):
    from mqclient import Message, Producer
    topic = mq_broker.topic()
    with Producer(mq_namesrv) as producer:
        producer.send(Message(topic, b"order 1"))
    assert [m.body for m in mq_broker.messages(topic)] == [b"order 1"]
"""
ROOT = Path(__file__).parent.parent.parent


def test_fixtures(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(USES)
    command = f"-m pytest -q -p no:cacheprovider --rootdir {tmp_path}"
    ran = subprocess.run(
        [sys.executable, *command.split(), str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        cwd=ROOT,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "2 passed" in ran.stdout
