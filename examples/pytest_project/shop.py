"""A shop that announces its orders; test_shop.py tests it."""

from mqclient import Message, Producer, RocketMQError


class Shop:
    """Takes orders. producer: a started producer; the caller closes it. topic: topic of the
    orders."""

    def __init__(self, producer: Producer, topic: str = "Orders") -> None:
        self._producer = producer
        self._topic = topic

    def order(self, number: str, article: str) -> str:
        """Announce an order. Returns the answer for the customer."""
        message = Message(self._topic, article.encode(), tags="Placed", keys=number)
        try:
            self._producer.send(message)
        except RocketMQError:
            return f"{number} could not be taken, please try again"
        return f"{number} is on its way"
