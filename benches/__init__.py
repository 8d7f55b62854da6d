"""Benchmarks. The test suite runs them as short smoke runs; RESULTS.md has the last full figures.

`python -m benches [--smoke] [NAME ...]` runs all or some of the cases.
"""
