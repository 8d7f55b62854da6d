"""The broker's state: topics, groups and members. It uses no sockets, store or processors."""
