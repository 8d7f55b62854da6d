"""Request and response headers, one frozen dataclass each, by family."""
