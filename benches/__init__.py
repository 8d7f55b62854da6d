"""Benches: one harness, small in the test suite, large by hand; RESULTS.md has the last figures.

`python -m benches [--smoke] [NAME ...]` runs all or some of the cases.
"""
