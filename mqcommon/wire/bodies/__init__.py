"""Request and response bodies that are JSON, one struct each, by subject."""
