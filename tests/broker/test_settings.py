"""The settings tables, the properties reader, precedence, and online update."""

import os
import re
from pathlib import Path
from typing import get_type_hints

import pytest

from mqcommon.java_properties import Entry, parse, render
from mqcommon.wire.bodies.common import DataVersion
from mqserver.config.broker_table import BROKER
from mqserver.config.load import load, pairs
from mqserver.config.loaded import Loaded, SettingsError
from mqserver.config.log_table import LogSettings
from mqserver.config.namesrv_table import NAMESRV
from mqserver.config.online import OnlineSettings
from mqserver.config.settings import (
    BrokerSettings,
    ClientTlsSettings,
    NamesrvSettings,
    ServerTlsSettings,
    broker_settings,
    namesrv_settings,
    store_settings,
)
from mqserver.config.table import Group, Table
from mqserver.runtime.processor_api import Refused
from mqstore import Settings


def broker(tmp_path: Path, text: str = "", **flags: str) -> Loaded:
    file = tmp_path / "broker.conf"
    file.write_text(text)
    return load(BROKER, file=file, flags=pairs(flags, "--set"))


@pytest.mark.parametrize(
    ("text", "entries"),
    [
        ("a=1\n b : 2\nc 3\nd", [("a", "1"), ("b", "2"), ("c", "3"), ("d", "")]),
        ("# no\n! no\n\n a = x y \n", [("a", "x y")]),
        ("a=1,\\\n   2,\\\n   3\n", [("a", "1,2,3")]),
        ("a=C:\\\\dir\\tx\\u0041\n", [("a", "C:\\dir\txA")]),
        ("a\\=b=c\\:d", [("a=b", "c:d")]),
        ("a=even\\\\\nb=2", [("a", "even\\"), ("b", "2")]),
    ],
)
def test_properties_text_is_read_as_java_reads_it(
    text: str, entries: list[tuple[str, str]]
) -> None:
    assert [(entry.key, entry.value) for entry in parse(text)] == entries


def test_line_numbers_are_those_of_the_first_line() -> None:
    assert parse("# c\na=1\\\n2\n\nb=3") == [Entry("a", "12", 2), Entry("b", "3", 5)]


@pytest.mark.parametrize(
    "text", ["plain", " lead", "a\\b", "two\nlines", "x=y:z #!", "#x", "a b", "a\u2028b\x0bc"]
)
def test_rendered_text_reads_back(text: str) -> None:
    assert parse(render({"key": text})) == [Entry("key", text, 1)]
    assert parse(render({text: "value"})) == [Entry(text, "value", 1)]


GROUPS = (BrokerSettings, NamesrvSettings, ServerTlsSettings, ClientTlsSettings, LogSettings)


def snake(key: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", key).lower().replace(".", "_")


@pytest.mark.parametrize("kind", GROUPS)
def test_a_field_is_named_and_typed_as_its_row(kind: type[Group]) -> None:
    types = get_type_hints(kind)
    for field, row in kind.rows().items():
        where = f"{field} of {kind.__name__}, in mqserver/config/*_table.py"
        joined = snake(row.key).removeprefix("tls_server_").removeprefix("tls_client_")
        assert field.replace("_", "") == joined.replace("_", ""), f"{where}: the key is {row.key}"
        assert type(row.default) is types[field], f"{where}: the default is of another type"


def test_a_group_has_all_values_and_they_stay() -> None:
    with pytest.raises(AssertionError, match="mode"):
        ServerTlsSettings()
    settings = broker_settings(load(BROKER))
    with pytest.raises(AttributeError, match="listen_port of BrokerSettings cannot change"):
        settings.listen_port = 1
    assert type(settings.server_tls.mode) is str


def test_defaults_are_rocketmqs(tmp_path: Path) -> None:
    settings = broker_settings(broker(tmp_path))
    assert (settings.listen_port, settings.default_topic_queue_nums) == (10911, 8)
    assert (settings.max_message_size, settings.register_name_server_period) == (4194304, 30000)
    assert store_settings(broker(tmp_path)) == Settings()


def test_flags_override_the_file_which_overrides_the_environment(tmp_path: Path) -> None:
    file = tmp_path / "b.conf"
    file.write_text("namesrvAddr=file:1\nbrokerName=file\n")
    loaded = load(
        BROKER,
        file=file,
        environment=[("namesrvAddr", "env:1", "environment NAMESRV_ADDR")],
        flags=[("brokerName", "flag", "--set")],
    )
    assert loaded.values["namesrvAddr"] == "file:1"
    assert (loaded.values["brokerName"], loaded.origins["brokerName"]) == ("flag", "--set")
    assert loaded.origins["namesrvAddr"] == f"{file}:1"


def test_saved_online_changes_come_after_the_file(tmp_path: Path) -> None:
    (tmp_path / "o.properties").write_text("brokerPermission=4\n")
    file = tmp_path / "b.conf"
    file.write_text("brokerPermission=2\n")
    loaded = load(BROKER, file=file, override=lambda _: tmp_path / "o.properties")
    assert loaded.values["brokerPermission"] == 4


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("listenPort=99999", [":1:", "listenPort=99999", "0 to 65535"]),
        ("\nsyncFlushTimeout=soon", [":2:", "a whole number", "ms"]),
        ("autoCreateTopicEnable=yes", ["true or false"]),
        ("flushDiskType=SOMETIMES", ["ASYNC_FLUSH, SYNC_FLUSH"]),
    ],
)
def test_a_bad_value_names_file_line_key_value_and_range(
    tmp_path: Path, text: str, words: list[str]
) -> None:
    with pytest.raises(SettingsError) as error:
        broker(tmp_path, text)
    assert "broker.conf" in str(error.value)
    assert all(word in str(error.value) for word in words), error.value


@pytest.mark.parametrize(
    "text",
    [
        "brokerRole=SLAVE",
        "brokerId=0\nbrokerRole=SLAVE",
        "brokerId=3",
        "haListen=false\nbrokerRole=SYNC_MASTER",
        "haAllowAddresses=10.0.0.0/99",
        "haMasterAddress=10.0.0.1",
        "namesrvAddr=host-without-port",
        "adminAllowAddresses=10.0.0.0/99",
        "mappedFileSizeConsumeQueue=6001",
        "storePathCommitLog=/one,/two",
    ],
)
def test_values_that_do_not_fit_together_are_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(SettingsError, match=r"broker\.conf:1: "):
        broker_settings(broker(tmp_path, text))


def test_unknown_and_inert_keys_only_warn(tmp_path: Path) -> None:
    changed, same = [row for row in BROKER.values() if row.inert and type(row.default) is int][:2]
    text = f"brokerNmae=x\n{changed.key}={changed.default + 1}\n{same.key}={same.default}\n"
    loaded = broker(tmp_path, text)
    assert len(loaded.warnings) == 2
    assert "did you mean brokerName?" in loaded.warnings[0]
    assert f"{changed.key} has no effect here" in loaded.warnings[1]


@pytest.mark.parametrize(
    ("table", "key", "hint"),
    [
        (BROKER, "brokerNmae", "did you mean brokerName?"),
        (BROKER, "foo", "`mqserver broker start -p` lists all keys"),
        (NAMESRV, "listenPrt", "did you mean listenPort?"),
        (NAMESRV, "foo", "`mqserver namesrv start -p` lists all keys"),
    ],
)
def test_an_unknown_key_of_a_flag_is_refused(table: Table, key: str, hint: str) -> None:
    with pytest.raises(SettingsError) as error:
        load(table, flags=[(key, "1", "--set")])
    assert str(error.value) == f"--set: unknown key {key}; {hint}"


def test_an_older_spelling_and_a_key_without_effect_may_be_flags() -> None:
    loaded = load(BROKER, flags=pairs({"mapedFileSizeCommitLog": "65536"}, "--set"))
    assert loaded.values["mappedFileSizeCommitLog"] == 65536
    loaded = load(BROKER, flags=pairs({"highSpeedMode": "true"}, "--set"))
    assert "highSpeedMode has no effect here" in loaded.warnings[0]


def test_older_spellings_are_known(tmp_path: Path) -> None:
    loaded = broker(tmp_path, "mapedFileSizeCommitLog=65536")
    assert store_settings(loaded).commit_log_file_bytes == 65536
    assert not loaded.warnings


def test_origins_are_listed(tmp_path: Path) -> None:
    loaded = broker(tmp_path, "brokerName=a", listenPort="1234")
    assert f"brokerName=a  # {tmp_path / 'broker.conf'}:1" in loaded.lines()
    assert "listenPort=1234  # --set" in loaded.lines(important_only=True)
    assert "brokerPermission=6  # default" not in loaded.lines(important_only=True)


class TestOnlineUpdate:
    def make(self, tmp_path: Path) -> tuple[OnlineSettings, list[int]]:
        seen: list[int] = []
        loaded = broker(tmp_path)

        def changed(now: Loaded) -> None:
            seen.append(broker_settings(now).broker_permission)

        path = tmp_path / "config/o.properties"
        return OnlineSettings(loaded, path, changed, broker_settings, lambda: 77), seen

    def test_an_allowed_key_changes_and_is_saved(self, tmp_path: Path) -> None:
        online, seen = self.make(tmp_path)
        assert online.update("brokerPermission=4\nnoSuchKey=1\n")
        assert seen == [4]
        assert "brokerPermission=4\n" in online.text()
        assert online.version == DataVersion(1, 77), "by the clock that it was given"
        assert (tmp_path / "config/o.properties").read_text() == "brokerPermission=4\n"

    def test_what_cannot_change_is_refused(self, tmp_path: Path) -> None:
        online, seen = self.make(tmp_path)
        with pytest.raises(Refused) as refused:
            online.update("listenPort=1")
        assert refused.value.response.code == 16
        assert "listenPort cannot change" in (refused.value.response.remark or "")
        with pytest.raises(Refused) as refused:
            online.update("brokerPermission=99")
        assert refused.value.response.code == 1
        assert not seen

    def test_nothing_to_change_is_fine(self, tmp_path: Path) -> None:
        online, seen = self.make(tmp_path)
        assert not online.update("")
        assert not online.update("noSuchKey=1\nputMsgIndexHightWater=600000\n")
        assert online.update("listenPort=10911")
        assert seen == [6]

    def test_a_change_is_logged_and_what_changes_nothing_too(
        self, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level("INFO", "mqserver.config")
        online, _ = self.make(tmp_path)
        online.update("brokerPermision=4\ndLegerGroup=a\nbrokerPermission=4", "10.0.0.1:5")
        assert caplog.messages == [
            "ignored a change by 10.0.0.1:5: unknown key 'brokerPermision'; "
            "did you mean brokerPermission?",
            "ignored a change by 10.0.0.1:5: dLegerGroup has no effect here: DLedger is not built",
            "10.0.0.1:5 set brokerPermission to 4",
        ]

    def test_a_change_that_does_not_fit_is_undone(self, tmp_path: Path) -> None:
        online, _ = self.make(tmp_path)
        with pytest.raises(Refused):
            online.update("adminAllowAddresses=nonsense")
        assert "adminAllowAddresses=\n" in online.text()

    def test_a_change_that_cannot_be_saved_is_none(self, tmp_path: Path) -> None:
        online, seen = self.make(tmp_path)
        (tmp_path / "config/o.properties.tmp").mkdir(parents=True)
        with pytest.raises(Refused, match="cannot save"):
            online.update("brokerPermission=4")
        assert not seen, "nobody hears of a change that is not on the disk"
        assert "brokerPermission=6\n" in online.text()
        (tmp_path / "config/o.properties.tmp").rmdir()
        assert online.update("brokerPermission=4")
        assert seen == [4]

    def test_a_damaged_file_is_read_from_its_previous_copy(self, tmp_path: Path) -> None:
        online, _ = self.make(tmp_path)
        online.update("brokerPermission=4")
        online.update("brokerPermission=2")
        path = tmp_path / "config/o.properties"
        stamp = path.stat().st_mtime_ns
        path.write_text("brokerPermission=6\n")
        os.utime(path, ns=(stamp, stamp))
        read = load(BROKER, override=lambda _: str(path))
        assert read.values["brokerPermission"] == 4, "same time, other bytes: damage"
        later = stamp + 1_000_000_000
        os.utime(path, ns=(later, later))
        read = load(BROKER, override=lambda _: str(path))
        assert read.values["brokerPermission"] == 6, "an operator wrote it"

    def test_a_bad_row_is_named_and_the_others_count(self, tmp_path: Path) -> None:
        path = tmp_path / "config/o.properties"
        path.parent.mkdir()
        path.write_text("flushDiskType=SOMETIMES\nbrokerPermission=4\n")
        read = load(BROKER, override=lambda _: str(path))
        assert read.values["brokerPermission"] == 4
        (warning,) = read.warnings
        assert f"{path}:1: flushDiskType=SOMETIMES" in warning


def test_namesrv_settings(tmp_path: Path) -> None:
    settings = namesrv_settings(load(NAMESRV))
    assert settings.listen_port == 9876
    assert settings.kv_config_path.endswith("/namesrv/kvConfig.json")
    assert not settings.kv_config_path.startswith("~")
