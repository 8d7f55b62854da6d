"""The broker: state, processors, registration."""
