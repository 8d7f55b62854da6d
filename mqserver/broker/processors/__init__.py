"""The broker's processors: one file for each family, one function for each request code."""
