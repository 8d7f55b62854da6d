"""`python -m benches.regression [--smoke]`."""

from benches.harness import command_line
from benches.regression import main

command_line(main)
