"""The push consumer: calls a handler for each message, and acknowledges."""
