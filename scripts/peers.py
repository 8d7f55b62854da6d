"""Installs what `python -m benches peers` measures ours beside, and says what this machine lacks.

    python -m scripts.peers            # into this checkout, all ignored by git
    python -m scripts.peers --system   # as root on Debian: Redis and RabbitMQ by apt-get as well

Kafka's jars come from Maven Central, nats-server is built by the Go tool chain, and the Python
clients are the dependency group `peers` of pyproject.toml.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable, Sequence
from pathlib import Path

from scripts.java_rocketmq import JavaMissing, Project, fetch

ROOT = Path(__file__).resolve().parent.parent
HOME = ROOT / ".cache" / "peers"
KAFKA = Project(ROOT / "benches" / "peers" / "kafka")
"""Kafka's server; its `pom.xml` has the version."""
NATS_SERVER = HOME / "bin" / "nats-server"
NATS_MODULE = "github.com/nats-io/nats-server/v2@v2.14.7"
PACKAGES = HOME / "python"
"""The peers' Python packages: in a folder of their own, so that nothing else imports them."""
RABBITMQ_SERVER = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")
"""The server's own script; the one on the PATH changes the user."""
SYSTEM_PACKAGES = ("redis-server", "rabbitmq-server")
SECONDS_MAX = 900.0
HINT = "run `python -m scripts.peers`"


def missing_kafka() -> str | None:
    """The reason why Kafka cannot run here; None if it can."""
    if shutil.which("java") is None:
        return "java is not on the PATH (JDK 17)"
    return None if list(KAFKA.lib.glob("kafka_*.jar")) else f"its jars are not there: {HINT}"


def missing_nats() -> str | None:
    """The reason why nats-server cannot run here; None if it can."""
    return None if NATS_SERVER.exists() else f"nats-server is not built: {HINT}"


def missing_redis() -> str | None:
    """The reason why Redis cannot run here; None if it can."""
    if shutil.which("redis-server"):
        return None
    return "redis-server is not on the PATH (Debian: redis-server)"


def missing_rabbit() -> str | None:
    """The reason why RabbitMQ cannot run here; None if it can."""
    if RABBITMQ_SERVER.exists() and shutil.which("epmd"):
        return None
    return f"{RABBITMQ_SERVER} or epmd is not there (Debian: rabbitmq-server)"


def missing_package(module: str) -> str | None:
    """The reason why a client cannot be imported; None if it can."""
    there = (PACKAGES / module).is_dir()
    return None if there else f"its Python package is not there: {HINT}"


def packages() -> list[str]:
    """The Python packages with their bounds."""
    manifest = tomllib.loads((ROOT / "pyproject.toml").read_text())
    found: list[str] = manifest["dependency-groups"]["peers"]
    return found


def install_packages() -> None:
    """Install the Python clients; raises OSError or CalledProcessError if that failed."""
    shutil.rmtree(PACKAGES, ignore_errors=True)
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(PACKAGES)]
    _run([*pip, *packages()])


def build_nats() -> None:
    """Build nats-server; raises OSError or CalledProcessError if that failed."""
    _run(["go", "install", NATS_MODULE], GOBIN=str(NATS_SERVER.parent))


def install_system() -> None:
    """Install Redis and RabbitMQ; raises OSError or CalledProcessError if that failed."""
    _run(["apt-get", "update", "-q"])
    apt = ["apt-get", "install", "-q", "-y", "--no-install-recommends", *SYSTEM_PACKAGES]
    _run(apt, DEBIAN_FRONTEND="noninteractive")


MISSING: dict[str, Callable[[], str | None]] = {
    "Kafka": missing_kafka,
    "NATS": missing_nats,
    "Redis": missing_redis,
    "RabbitMQ": missing_rabbit,
}


def main(arguments: Sequence[str]) -> int:
    """Install all that can be installed; 1 if something is missing after that."""
    steps = [install_packages, build_nats, lambda: fetch(KAFKA)]
    if "--system" in arguments:
        steps.append(install_system)
    failed = False
    for step in steps:
        try:
            step()
        except (OSError, subprocess.SubprocessError, JavaMissing) as reason:
            print(reason, file=sys.stderr)
            failed = True
    for name, missing in MISSING.items():
        reason = missing()
        print(f"{name}: {reason or 'can run'}")
        failed = failed or reason is not None
    return 1 if failed else 0


def _run(command: list[str], **environment: str) -> None:
    subprocess.run(command, env={**os.environ, **environment}, check=True, timeout=SECONDS_MAX)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
