"""The broker's processors: one file for each subject, one function for each request code."""
