"""`/metrics`, `/live` and `/ready` of a server."""
