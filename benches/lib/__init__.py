"""What the cases share: the harness, servers, loads, and clients that load them."""
