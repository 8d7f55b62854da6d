"""Request and response bodies that are JSON, one dataclass each, by family."""
