"""The broker: state, processors, registration (server.md B)."""
