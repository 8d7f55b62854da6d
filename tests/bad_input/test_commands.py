"""What operators get wrong: each mistake costs one clear line and the right exit code."""

from __future__ import annotations

import os
import re
import signal
import socket
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from mqserver.embedded.testing import free_port
from tests.bad_input.commands import run, running

GOLDEN_STORE = Path(__file__).parent.parent / "golden" / "store" / "store.tar.gz"


def small(root: Path, **more: str) -> list[str]:
    """Settings of a broker that fits a test, as --set words."""
    settings = {
        "storePathRootDir": str(root),
        "bindAddress": "127.0.0.1",
        "brokerName": "broker-a",
        "listenPort": str(free_port()),
        "fastPortEnable": "false",
        "mappedFileSizeCommitLog": str(1 << 20),
        "maxHashSlotNum": "100",
        "maxIndexNum": "400",
        "minFreeBytes": "1",
        **more,
    }
    return [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]


@pytest.fixture
def taken() -> Iterator[int]:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        yield listener.getsockname()[1]


class TestBoot:
    def test_namesrv_and_broker_say_rocketmqs_lines(self, tmp_path: Path) -> None:
        kv = f"kvConfigPath={tmp_path / 'kv.json'}"
        words = ("--set", "listenPort=0", "--set", "bindAddress=127.0.0.1", "--set", kv)
        with running("namesrv", "start", *words) as names:
            first = names.wait_for("boot success")
            assert first == "The Name Server boot success. serializeType=JSON"
            address = names.wait_for("listening on").removeprefix("listening on ")
            port = free_port()
            settings = small(tmp_path / "store", listenPort=str(port))
            with running("broker", "start", "-n", address, *settings) as broker:
                line = broker.wait_for("boot success")
                assert line == (
                    f"The broker[broker-a, 127.0.0.1:{port}] boot success. "
                    f"serializeType=JSON and name server is {address}"
                )
                told = broker.wait_for("clients will be told")
                assert told == f"clients will be told 127.0.0.1:{port} (from: bindAddress)"
                assert re.fullmatch(
                    rf"store: {tmp_path / 'store'} \(\d+\.\d GiB free\)", broker.wait_for("store:")
                )
                assert broker.stop() == 0
            assert not (tmp_path / "store" / "abort").exists()
            assert names.stop(signal.SIGINT) == 0

    def test_a_configuration_file_of_rocketmq_works(self, tmp_path: Path) -> None:
        file = tmp_path / "broker.conf"
        file.write_text(
            "# an ordinary file\nbrokerClusterName = DefaultCluster\nbrokerName = broker-x\n"
            "brokerId = 0\ndeleteWhen = 04\nfileReservedTime = 48\nbrokerRole = ASYNC_MASTER\n"
            f"flushDiskType = ASYNC_FLUSH\nstorePathRootDir={tmp_path / 'store'}\n"
            f"storePathCommitLog={tmp_path / 'store' / 'commitlog'}\n"
        )
        checked = run("broker", "check", "-c", str(file))
        assert checked.returncode == 0, checked.stderr
        printed = run("broker", "start", "-c", str(file), "-p")
        assert printed.returncode == 0
        assert f"brokerName=broker-x  # {file}:3" in printed.stdout
        important = run("broker", "start", "-c", str(file), "-m")
        assert "brokerName=broker-x" in important.stdout
        assert len(important.stdout) < len(printed.stdout) / 4

    def test_an_unreachable_namesrv_is_a_warning(self, tmp_path: Path) -> None:
        nobody = f"127.0.0.1:{free_port()}"
        with running("broker", "start", "-n", nobody, *small(tmp_path)) as broker:
            broker.wait_for("boot success")
            line = broker.wait_for(f"NameServer {nobody} does not answer")
            assert "the broker tries again" in line
            assert broker.stop() == 0


class TestMistakes:
    def refused(self, code: int, *words: str, args: list[str]) -> str:
        done = run(*args)
        assert done.returncode == code, done.stdout + done.stderr
        *log, error = done.stderr.splitlines()
        assert error.startswith("mqserver: ")
        assert all(word in error for word in words), done.stderr
        assert all(" INFO " in line for line in log), "only the log stands before the error"
        return error

    def test_a_bad_value(self, tmp_path: Path) -> None:
        file = tmp_path / "b.conf"
        file.write_text("\nlistenPort=99999\n")
        wanted = (f"{file}:2", "listenPort=99999", "65535")
        self.refused(2, *wanted, args=["broker", "check", "-c", str(file)])
        self.refused(2, *wanted, args=["broker", "start", "-c", str(file)])

    def test_a_missing_file(self, tmp_path: Path) -> None:
        args = ["broker", "start", "-c", str(tmp_path / "none.conf")]
        self.refused(2, "none.conf", "No such file", args=args)

    def test_a_bad_word(self) -> None:
        done = run("broker", "start", "--set", "nonsense")
        assert done.returncode == 2
        assert "KEY=VALUE" in done.stderr

    def test_a_port_in_use(self, tmp_path: Path, taken: int) -> None:
        args = ["broker", "start", *small(tmp_path, listenPort=str(taken))]
        self.refused(1, f"port {taken} is in use", "listenPort", args=args)
        names = ["namesrv", "start", "--set", f"listenPort={taken}"]
        names += ["--set", "bindAddress=127.0.0.1", "--set", f"kvConfigPath={tmp_path / 'kv'}"]
        self.refused(1, f"port {taken} is in use", args=names)

    def test_a_metrics_port_in_use(self, tmp_path: Path, taken: int) -> None:
        args = ["broker", "start", *small(tmp_path, metricsListen=f"127.0.0.1:{taken}")]
        self.refused(1, f"port {taken} is in use", "another metricsListen", args=args)

    def test_standalone_names_the_port_in_use(self, tmp_path: Path, taken: int) -> None:
        names = ["--set-namesrv", f"listenPort={taken}"]
        option = "set another listenPort: --set-namesrv listenPort="
        self.refused(1, f"port {taken} is in use", option, args=["standalone", *names])

    def test_standalone_names_the_option_of_the_broker(self, taken: int) -> None:
        for setting, value in (("listenPort", taken), ("metricsListen", f"127.0.0.1:{taken}")):
            ports = ["--set-namesrv", "listenPort=0", "--set", "listenPort=0"]
            done = run("standalone", *ports, "--set", f"{setting}={value}")
            assert done.returncode == 1
            wanted = rf"mqserver: port {taken} .*is in use.* another {setting}: --set {setting}="
            assert re.search(wanted, done.stderr), done.stderr

    def test_a_locked_store(self, tmp_path: Path) -> None:
        with running("broker", "start", *small(tmp_path)) as broker:
            broker.wait_for("boot success")
            args = ["broker", "start", *small(tmp_path)]
            self.refused(1, str(tmp_path), "locked", "mqstore ls", args=args)
            assert broker.stop() == 0

    def test_a_store_that_cannot_be_written(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("in the way")
        args = ["broker", "start", *small(tmp_path / "file" / "store")]
        self.refused(1, str(tmp_path / "file"), args=args)

    @pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
    def test_a_store_without_permission(self, tmp_path: Path) -> None:
        tmp_path.chmod(0o500)
        self.refused(1, "Permission denied", args=["broker", "start", *small(tmp_path / "s")])

    def test_a_store_of_other_file_sizes(self, tmp_path: Path) -> None:
        with tarfile.open(GOLDEN_STORE) as archive:
            archive.extractall(tmp_path, filter="data")
        root = next(path.parent for path in tmp_path.rglob("commitlog"))
        args = ["broker", "start", *small(root, mappedFileSizeCommitLog="131072")]
        self.refused(1, "65536", args=args)

    def test_a_store_of_an_unknown_layout(self, tmp_path: Path) -> None:
        (tmp_path / "commitlog").mkdir()
        (tmp_path / "commitlog" / "00000000000000000000").write_bytes(b"\0" * 1000)
        (tmp_path / "commitlog" / "00000000000000000777").write_bytes(b"\0" * 10)
        self.refused(1, str(tmp_path), args=["broker", "start", *small(tmp_path)])

    def test_a_slave_without_an_id(self, tmp_path: Path) -> None:
        args = ["broker", "start", *small(tmp_path, brokerRole="SLAVE")]
        self.refused(2, "brokerRole=SLAVE", "a brokerId above 0", args=args)


def test_unknown_keys_warn_and_name_the_nearest(tmp_path: Path) -> None:
    file = tmp_path / "b.conf"
    file.write_text("brokerNmae=x\n")
    checked = run("broker", "check", "-c", str(file))
    assert checked.returncode == 0
    assert f"warning: {file}:1: unknown key brokerNmae" in checked.stderr
    assert "did you mean brokerName?" in checked.stderr


def test_help_is_rocketmqs_h() -> None:
    assert "-n, --namesrvAddr" in run("broker", "start", "-h").stdout
