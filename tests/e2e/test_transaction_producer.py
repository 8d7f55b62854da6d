"""Our transaction producer at our broker, through its restart."""

from __future__ import annotations

from pathlib import Path

from mqclient import Message, Retry, TransactionProducer, TransactionState
from mqserver.embedded.standalone import Standalone
from mqserver.embedded.testing import free_port
from tests.waiting import until

CHECKS = {
    "transactionCheckInterval": "50",
    "transactionTimeOut": "100",
    "transactionCheckMax": "100000",
}


def test_a_transaction_outlasts_a_restart_of_the_only_broker(tmp_path: Path) -> None:
    answers = {b"before": TransactionState.UNKNOWN}
    with (
        Standalone(tmp_path, namesrv_port=free_port(), port=free_port(), settings=CHECKS) as mq,
        TransactionProducer(
            "orders",
            mq.namesrv,
            timeout=60,
            retry=Retry(max_retries=100),
            check=lambda m: answers.get(m.body),
        ) as producer,
    ):
        topic = mq.topic()
        with producer.transaction(Message(topic, b"before")):
            pass
        with producer.transaction(Message(topic, b"around")) as tx:
            mq.restart()
            tx.commit()
        # The send announces the producer to the broker again: no heartbeat is due for 30 s.
        with producer.transaction(Message(topic, b"after")) as tx:
            tx.commit()
        answers |= dict.fromkeys((b"before", b"around"), TransactionState.COMMIT)

        def bodies() -> list[bytes]:
            return sorted(message.body for message in mq.messages(topic))

        assert until(lambda: len(bodies()) >= 3), bodies()
        assert bodies() == [b"after", b"around", b"before"]
