"""One file a command: its options, the rows it finds, RocketMQ's text of them."""
