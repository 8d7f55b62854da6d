"""What every client stands on: connections, routes, heartbeats, NameServers."""
