"""Run every bench, or those named; fails if one fails."""

import argparse
import importlib
import sys
import time
import traceback

from benches.harness import BenchFailed

NAMES = (
    "store",
    "end_to_end",
    "python_client",
    "scale",
    "flat",
    "names",
    "overload",
    "transactions",
    "regression",
    "versus_java",
)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benches", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(NAMES)}")
    parser.add_argument("--smoke", action="store_true", help="seconds each: do they run?")
    parser.add_argument(
        "--save-baseline", action="store_true", help="what `make bench` compares with, anew"
    )
    arguments = parser.parse_args()
    if arguments.save_baseline:
        importlib.import_module("benches.regression").save_baseline()
        return 0
    failed = []
    for name in arguments.names or NAMES:
        started = time.monotonic()
        print(f"== {name}", flush=True)
        try:
            importlib.import_module(f"benches.{name}").main(smoke=arguments.smoke)
        except BenchFailed as reason:
            print(reason, file=sys.stderr)
            failed.append(name)
        except Exception:
            traceback.print_exc()
            failed.append(name)
        print(f"== {name}: {time.monotonic() - started:.1f} s\n", flush=True)
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
