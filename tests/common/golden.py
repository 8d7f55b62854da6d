"""Stores that a Java broker wrote, and what Java read in them."""

import gzip
import json
import tarfile
from pathlib import Path
from typing import Any

GOLDEN = Path(__file__).parent.parent / "golden"


def extract(name: str, to: Path) -> Path:
    """Unpack one of the golden store directories; returns its root."""
    root = to / name
    root.mkdir(parents=True)
    with tarfile.open(GOLDEN / name / "store.tar.gz") as archive:
        archive.extractall(root, filter="data")
    return root


def expected(name: str) -> list[dict[str, Any]]:
    """One line per record, filler or end of the log, as Java's MessageDecoder saw them."""
    text = gzip.decompress((GOLDEN / name / "expected.jsonl.gz").read_bytes()).decode()
    return [json.loads(line) for line in text.splitlines()]


def records(name: str) -> list[tuple[bytes, dict[str, Any]]]:
    """Bytes and expectation of every record of a store, in log order."""
    with tarfile.open(GOLDEN / name / "store.tar.gz") as archive:
        files = {
            int(Path(member.name).name): archive.extractfile(member).read()
            for member in archive.getmembers()
            if "/commitlog/" in member.name and member.isfile()
        }
    file_bytes = len(next(iter(files.values())))
    found = []
    for line in expected(name):
        if "topic" in line:
            at = line["physicalOffset"]
            start = at - at % file_bytes
            found.append((files[start][at - start :][: line["storeSize"]], line))
    return found
