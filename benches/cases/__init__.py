"""What can be run: a module, or a package, for each name that `python -m benches` takes."""
