"""What the broker knows: topics, groups, members. No sockets, no store, no processors."""
