"""The loads of what a Python user could pick instead: one module a client, and their servers."""
