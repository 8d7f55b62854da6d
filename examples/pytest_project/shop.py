"""A shop that announces its orders, and a kitchen that cooks them; test_shop.py tests both."""

from mqclient import Message, Producer, ReceivedMessage, RocketMQError


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


class Kitchen:
    """Cooks orders: `PushConsumer("kitchen").on_message("Orders")(kitchen.handle)`."""

    def __init__(self) -> None:
        self.cooked: dict[str, str] = {}

    def handle(self, message: ReceivedMessage) -> None:
        """Cook an order. A message may come again, so the order's number says what is done."""
        (number,) = message.keys
        if number not in self.cooked:
            self.cooked[number] = message.body.decode()
