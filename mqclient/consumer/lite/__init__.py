"""The lite pull consumer: its caller asks for messages."""
