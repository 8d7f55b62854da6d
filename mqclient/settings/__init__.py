"""Settings of clients: frozen value objects, checked when they are made."""
