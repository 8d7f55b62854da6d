"""Java RocketMQ for the interop tests and the comparing benches: jars, drivers, flags, homes.

Only a JDK and Maven must be installed. `fetch()` copies the jars of a project's `pom.xml` from
Maven Central into its `lib/` (ignored by git), once. `compile_drivers()` compiles its `src/` after
a change.

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
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Project:
    """A folder with a `pom.xml` that lists RocketMQ artefacts, and optional drivers in `src/`.

    uses: the project whose jars the drivers are compiled against; None for its own jars.
    """

    home: Path
    uses: Project | None = None

    @property
    def pom(self) -> Path:
        """The file that lists the artefacts to fetch."""
        return self.home / "pom.xml"

    @property
    def lib(self) -> Path:
        """The fetched jars."""
        return self.home / "lib"

    @property
    def target(self) -> Path:
        """The compiled drivers."""
        return self.home / "target"


INTEROP = Project(ROOT / "tests" / "interop" / "java")
"""RocketMQ 4.9.7: servers, client and tools, with the drivers of the interop tests."""
VERSUS = Project(ROOT / "benches" / "versus_java" / "java", uses=INTEROP)
"""RocketMQ 5.3.3: servers. Its driver, the Java load, uses the client of 4.9.7."""

#: JVM flags that RocketMQ 4.9 needs on Java 17.
OPEN_FLAGS = (
    "--add-opens=java.base/java.nio=ALL-UNNAMED",
    "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED",
    "--add-exports=java.base/jdk.internal.ref=ALL-UNNAMED",
)
#: Flags for a fast start at the cost of speed. Without TLS, a server generates no key at its start.
QUICK_START_FLAGS = (
    "-XX:TieredStopAtLevel=1",
    "-XX:+UseSerialGC",
    "-Xmx256m",
    "-Dtls.server.mode=disabled",
)

LOGBACK = """<configuration>
  <appender name="file" class="ch.qos.logback.core.FileAppender">
    <file>{file}</file>
    <encoder><pattern>%d{{HH:mm:ss.SSS}} %-5level %logger{{20}} - %msg%n</pattern></encoder>
  </appender>
  <root level="INFO"><appender-ref ref="file"/></root>
</configuration>
"""


class JavaMissing(RuntimeError):
    """JDK or Maven is missing, or Maven could not fetch; the text gives the reason."""


def missing(project: Project = INTEROP) -> str | None:
    """The reason why Java RocketMQ cannot run here; None if it can."""
    absent = [tool for tool in ("java", "javac") if shutil.which(tool) is None]
    if shutil.which("mvn") is None and not _is_stamped(project.lib, [project.pom]):
        absent.append("mvn")
    packages = "JDK 17 and Maven; Debian: openjdk-17-jdk-headless, maven"
    return f"not on the PATH: {', '.join(absent)} ({packages})" if absent else None


def prepare_home(home: Path) -> Path:
    """Create a rocketmq.home.dir whose log files stay inside it."""
    conf = home / "conf"
    conf.mkdir(parents=True, exist_ok=True)
    for who in ("broker", "namesrv", "tools"):
        text = LOGBACK.format(file=home / "logs" / f"{who}.log")
        (conf / f"logback_{who}.xml").write_text(text)
    return home


def fetch(project: Project = INTEROP, timeout: float = 600.0) -> Path:
    """The folder with RocketMQ's jars; runs Maven if it is missing or pom.xml has changed."""
    with _locked(project):
        if not _is_stamped(project.lib, [project.pom]):
            goal = ["dependency:copy-dependencies", f"-DoutputDirectory={project.lib}"]
            command = ["mvn", "-q", "-B", "-f", str(project.pom), *goal, "-DincludeScope=runtime"]
            _run(command, timeout)
            _stamp(project.lib, [project.pom])
    return project.lib


def compile_drivers(project: Project = INTEROP, timeout: float = 120.0) -> Path:
    """The folder with the driver classes; compiles them if a source has changed."""
    jars = fetch(project.uses or project)
    inputs = [(project.uses or project).pom, *sorted((project.home / "src").glob("*.java"))]
    with _locked(project):
        if not _is_stamped(project.target, inputs):
            shutil.rmtree(project.target, ignore_errors=True)
            options = ["--release", "17", "-nowarn", "-cp", f"{jars}/*", "-d", str(project.target)]
            _run(["javac", *options, *map(str, inputs[1:])], timeout)
            _stamp(project.target, inputs)
    return project.target


def class_path(project: Project = INTEROP) -> str:
    """RocketMQ's jars and the driver classes, ready for `java -cp`."""
    return f"{compile_drivers(project)}:{fetch(project.uses or project)}/*"


def _run(command: list[str], timeout: float) -> None:
    """Run a tool; raises JavaMissing with the end of its output if it fails."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise JavaMissing(f"{command[0]} did not run: {error}") from error
    if done.returncode != 0:
        raise JavaMissing(f"{command[0]} failed: {(done.stdout + done.stderr)[-2000:]}")


@contextmanager
def _locked(project: Project) -> Iterator[None]:
    """Allow one fetch or compile at a time, also among parallel test workers."""
    with (project.home / ".lock").open("w") as lock:
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
