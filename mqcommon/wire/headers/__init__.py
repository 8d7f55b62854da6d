"""Request and response headers, one frozen struct each, by subject."""
