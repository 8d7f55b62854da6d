"""`python -m benches.cases.versus_java [--smoke] [--only ROW ...] [--rounds N] [--seconds S]`."""

import argparse
import signal
import sys

from benches.cases import versus_java
from benches.cases.versus_java import results
from benches.cases.versus_java.table import ROWS
from benches.lib.harness import saying_no

parser = argparse.ArgumentParser(prog="python -m benches.cases.versus_java", description=__doc__)
names = [row.name for row in ROWS]
parser.add_argument("--only", nargs="+", metavar="ROW", choices=names, help=", ".join(names))
parser.add_argument("--rounds", type=int, default=versus_java.ROUNDS, help="rounds per broker")
parser.add_argument("--seconds", type=float, default=versus_java.SECONDS, help="length of a round")
parser.add_argument(
    "--warmup", type=float, default=versus_java.WARMUP_SECONDS, help="seconds of a warm-up run"
)
parser.add_argument(
    "--try", dest="scratch", action="store_true", help="write results to artifacts/"
)
parser.add_argument("--render", action="store_true", help="only write RESULTS.md again")
parser.add_argument("--smoke", action="store_true", help="run for seconds, to see that it works")
signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that servers stop and stores go
chosen = parser.parse_args()
if chosen.smoke:
    versus_java.main(smoke=True)
elif chosen.render:
    print(results.write(ROWS, results.HERE))
else:
    home = versus_java.SCRATCH if chosen.scratch else results.HERE
    lengths = (chosen.rounds, chosen.seconds, chosen.warmup)
    with saying_no():
        versus_java.run(chosen.only or names, *lengths, home)
