"""Benches: one harness, small in the test suite, large by hand; RESULTS.md has the last figures.

`python -m benches [--smoke] [NAME ...]` runs all or some; each is also a module of its own, as
in `python -m benches.end_to_end --smoke`.
"""
