"""Every call of a client, without IO: the request, and the reader of its answer."""
