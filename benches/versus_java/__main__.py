"""`python -m benches.versus_java [--smoke]`."""

from benches.harness import command_line
from benches.versus_java import main

command_line(main)
