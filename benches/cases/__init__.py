"""One module or package for each name that `python -m benches` accepts."""
