"""Java RocketMQ 4.9.7 for the interop tests and the side-by-side benches: jars, drivers, JVM flags.

Nothing has to be installed first but a JDK and Maven: `fetch()` copies the jars of
`tests/interop/java/pom.xml` from Maven Central into `tests/interop/java/lib/` (ignored by git),
once; `compile_drivers()` compiles `tests/interop/java/src/` against them when it has changed.

    python scripts/java_rocketmq.py        # fetches, compiles, prints the class path
"""

from __future__ import annotations

import fcntl
import hashlib
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

JAVA_HOME = Path(__file__).resolve().parent.parent / "tests" / "interop" / "java"
POM = JAVA_HOME / "pom.xml"
LIB = JAVA_HOME / "lib"
SOURCES = JAVA_HOME / "src"
TARGET = JAVA_HOME / "target"

#: What RocketMQ 4.9 needs on Java 17.
OPEN_FLAGS = (
    "--add-opens=java.base/java.nio=ALL-UNNAMED",
    "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED",
    "--add-exports=java.base/jdk.internal.ref=ALL-UNNAMED",
)
#: A JVM that starts fast rather than runs fast; without TLS no server makes a key at its start.
QUICK_START_FLAGS = (
    "-XX:TieredStopAtLevel=1",
    "-XX:+UseSerialGC",
    "-Xmx256m",
    "-Dtls.server.mode=disabled",
)


class JavaMissing(RuntimeError):
    """There is no JDK or Maven here, or Maven could not fetch: the text says which."""


def missing() -> str | None:
    """What keeps Java RocketMQ from running here, or None."""
    absent = [tool for tool in ("java", "javac") if shutil.which(tool) is None]
    if shutil.which("mvn") is None and not _is_stamped(LIB, [POM]):
        absent.append("mvn")
    return f"not on the PATH: {', '.join(absent)} (JDK 17 and Maven)" if absent else None


def fetch(timeout: float = 600.0) -> Path:
    """The folder of RocketMQ's jars; fetched by Maven when absent or when pom.xml has changed."""
    with _locked():
        if not _is_stamped(LIB, [POM]):
            goal = ["dependency:copy-dependencies", f"-DoutputDirectory={LIB}"]
            _run(["mvn", "-q", "-B", "-f", str(POM), *goal, "-DincludeScope=runtime"], timeout)
            _stamp(LIB, [POM])
    return LIB


def compile_drivers(timeout: float = 120.0) -> Path:
    """The folder of the compiled driver classes; compiled when a source has changed."""
    fetch()
    sources = sorted(SOURCES.glob("*.java"))
    with _locked():
        if not _is_stamped(TARGET, [POM, *sources]):
            shutil.rmtree(TARGET, ignore_errors=True)
            options = ["--release", "17", "-nowarn", "-cp", f"{LIB}/*", "-d", str(TARGET)]
            _run(["javac", *options, *map(str, sources)], timeout)
            _stamp(TARGET, [POM, *sources])
    return TARGET


def class_path() -> str:
    """RocketMQ's jars and the driver classes, ready for `java -cp`."""
    return f"{compile_drivers()}:{fetch()}/*"


def _run(command: list[str], timeout: float) -> None:
    """Run a tool; raise JavaMissing with the end of what it said when it fails."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise JavaMissing(f"{command[0]} did not run: {error}") from error
    if done.returncode != 0:
        raise JavaMissing(f"{command[0]} failed: {(done.stdout + done.stderr)[-2000:]}")


@contextmanager
def _locked() -> Iterator[None]:
    """One fetch or compile at a time, also among parallel test workers."""
    with (JAVA_HOME / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _is_stamped(folder: Path, inputs: list[Path]) -> bool:
    stamp = folder / ".stamp"
    return stamp.exists() and stamp.read_text() == _digest(inputs)


def _stamp(folder: Path, inputs: list[Path]) -> None:
    (folder / ".stamp").write_text(_digest(inputs))


def _digest(inputs: list[Path]) -> str:
    return hashlib.sha256(b"\0".join(path.read_bytes() for path in inputs)).hexdigest()


if __name__ == "__main__":
    try:
        print(class_path())
    except JavaMissing as reason:
        sys.exit(f"Java RocketMQ is not available: {reason}")
