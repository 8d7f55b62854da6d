"""TLS of the servers: certificates, and their renewal and expiry."""
