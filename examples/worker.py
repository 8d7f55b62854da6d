"""A worker that handles jobs until a signal stops it.

    python examples/worker.py --namesrv 127.0.0.1:9876
    mqclient send Jobs "resize 1.png"       # in another terminal

Ctrl-C and SIGTERM (systemd, Kubernetes, docker stop) end `run()`: the worker takes no new jobs,
finishes the running ones and commits them. Give it more time to stop than its longest job takes.
"""

import argparse
import time

from mqclient import PushConsumer, ReceivedMessage


def work(message: ReceivedMessage) -> None:
    """Handle one job; after an exception the broker delivers it again later."""
    job = message.body.decode()
    print(f"began {job}", flush=True)
    time.sleep(1.0)
    print(f"finished {job}", flush=True)


def main() -> None:
    """Handle jobs until Ctrl-C or SIGTERM."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--namesrv", help="NameServer host:port; default: NAMESRV_ADDR")
    arguments = parser.parse_args()
    consumer = PushConsumer("workers", arguments.namesrv, consume_from="earliest", threads=4)
    consumer.on_message("Jobs")(work)
    print("waiting for jobs; Ctrl-C ends", flush=True)
    consumer.run()
    print("stopped: every job that began is finished and committed")


if __name__ == "__main__":
    main()
