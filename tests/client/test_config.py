"""Arguments are checked where they are given, and the error names the argument."""

from dataclasses import fields
from datetime import datetime, timedelta

import pytest

from mqclient import LitePullConsumer, Message, Producer, PushConsumer, Tls, aio
from mqclient.blocking.admin import Admin
from mqclient.settings.checks import check_topic, namesrv_addresses, read_address_map, seconds
from mqclient.settings.clients import ClientSettings
from mqclient.settings.consumers import (
    ConsumerOptions,
    ConsumerSettings,
    LitePullOptions,
    LitePullSettings,
)
from mqclient.settings.producers import ProducerOptions, ProducerSettings


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ("127.0.0.1:9876", ("127.0.0.1:9876",)),
        ("a:1;b:2", ("a:1", "b:2")),
        ("a", ("a:9876",)),
        (["a:1", "a:1", "b"], ("a:1", "b:9876")),
        ("http://a:1/", ("a:1",)),
        ("[::1]:9876", ("[::1]:9876",)),
    ],
)
def test_namesrv_addresses(given, wanted):
    assert namesrv_addresses(given) == wanted


def test_namesrv_comes_from_the_environment(monkeypatch):
    monkeypatch.setenv("NAMESRV_ADDR", "there:1")
    assert namesrv_addresses(None) == ("there:1",)
    monkeypatch.delenv("NAMESRV_ADDR")
    assert namesrv_addresses(None) == ("127.0.0.1:9876",)


@pytest.mark.parametrize("given", ["", ":9876", "a:b", "a:0", "a:70000", "a/b:1"])
def test_bad_namesrv(given):
    with pytest.raises(ValueError, match="host:port"):
        namesrv_addresses(given)


@pytest.mark.parametrize("given", [9876, 1.5, b"h:1", ["h:1", 9876]])
def test_a_namesrv_of_another_type_is_named(given):
    with pytest.raises(TypeError, match="namesrv must be host:port as str, or a list of them"):
        Producer(given)


@pytest.mark.parametrize("given", ["a:b:c", "a:b:9876", "[a]b:c:1", "::g", "[1.2:3:4]:9876"])
def test_what_only_looks_like_ipv6_is_refused(given):
    with pytest.raises(ValueError, match="is not an address; give host:port"):
        Producer(given)


@pytest.mark.parametrize("given", ["a b:1", {"a": 1}, "a:b:c", b"a:1"])
def test_what_is_no_address_of_a_namesrv_is_refused(given):
    with pytest.raises((TypeError, ValueError), match="host:port"):
        Producer(given)


@pytest.mark.parametrize("keys", [3, b"k"])
def test_keys_of_another_type_are_named(keys):
    with pytest.raises(TypeError, match="keys must be str or a list of str, not"):
        Message("T", b"", keys=keys)


@pytest.mark.parametrize(
    ("argument", "value", "words"),
    [
        ("flag", "x", "flag must be int, not str"),
        ("flag", True, "flag must be int, not bool"),
        ("flag", 1 << 31, "flag must fit 32 bits, not 2147483648"),
        ("properties", 5, "properties must be a mapping of str to str, not int"),
        ("properties", "a=b", "properties must be a mapping of str to str, not str"),
        ("delay_level", True, "delay_level must be 0"),
        ("wait_store_ok", "false", "wait_store_ok must be bool, not str"),
    ],
)
def test_fields_of_a_message_are_named(argument, value, words):
    with pytest.raises((TypeError, ValueError), match=words):
        Message("T", b"", **{argument: value})


@pytest.mark.parametrize("make", [Producer, aio.Producer, Admin, aio.Admin])
@pytest.mark.parametrize(
    ("argument", "value", "words"),
    [
        ("address_map", "a=b", "address_map must be a mapping of .* not str"),
        ("address_map", 5, "address_map must be a mapping of .* not int"),
        ("address_map", {"a:1": 5}, "address_map holds 5; an address must be str"),
        ("address_map", {"a": "b:2"}, "address_map holds 'a', which is not HOST:PORT"),
        ("access_key", 5, "access_key must be str, not int"),
        ("security_token", b"t", "security_token must be str, not bytes"),
        ("tls", "yes", "tls must be a Tls or bool, not str"),
        ("tiemout", 3, "tiemout"),
    ],
)
def test_arguments_of_every_client_are_named(make, argument, value, words):
    with pytest.raises((TypeError, ValueError), match=words):
        make("a:1", **{argument: value})


@pytest.mark.parametrize(
    ("argument", "value", "words"),
    [
        ("client_ip", 5, "client_ip must be str, not int"),
        ("instance_name", 5, "instance_name must be str, not int"),
        ("unit_name", 5, "unit_name must be str, not int"),
        ("serialize", "json", "serialize must be a SerializeType, not str"),
        ("queue_index_start", "x", "queue_index_start must be int, not str"),
        ("queue_index_start", -1, "queue_index_start must be 0 to"),
        ("retry_not_durable", "no", "retry_not_durable must be bool, not str"),
    ],
)
def test_arguments_of_a_producer_are_named(argument, value, words):
    with pytest.raises((TypeError, ValueError), match=words):
        Producer("a:1", **{argument: value})


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"consume_from": "newest"}, "consume_from 'newest' is not"),
        ({"consume_from": datetime(2026, 1, 1)}, "consume_from needs a datetime with a time zone"),
        ({"group": "a b"}, "group 'a b' may hold only"),
        ({"group": " "}, "group must not be blank"),
        ({"group": "DEFAULT_CONSUMER"}, "placeholder of RocketMQ"),
        ({"auto_commit": 1}, "auto_commit must be bool, not int"),
        ({"auto_commit_interval": 0}, "auto_commit_interval must be at least"),
        ({"pull_batch": 0}, "pull_batch must be 1 to 1024"),
        ({"total_count_max": "x"}, "total_count_max must be int, not str"),
        ({"namesvr": "a:1"}, "unknown argument 'namesvr'"),
        ({"clientip": "x"}, "did you mean client_ip"),
    ],
)
def test_arguments_of_a_lite_pull_consumer_are_named(arguments, words):
    with pytest.raises((TypeError, ValueError), match=words):
        LitePullConsumer(**{"namesrv": "a:1", **arguments})


def test_the_options_of_clients_are_the_fields_of_their_settings():
    for options, settings in (
        (ConsumerOptions, ConsumerSettings),
        (LitePullOptions, LitePullSettings),
        (ProducerOptions, ProducerSettings),
    ):
        given = {*options.__annotations__, "group"}
        common = {item.name for item in fields(ClientSettings)} - {"namesrv"}
        assert given - common == {item.name for item in fields(settings)}


@pytest.mark.parametrize("name", ["ca_file", "cert_file", "key_file", "key_password"])
def test_arguments_of_tls_are_named(name):
    with pytest.raises(TypeError, match=f"{name} must be"):
        Tls(**{name: 5})


def test_a_message_id_of_another_type_is_named():
    with Admin("a:1") as admin, pytest.raises(TypeError, match="message id must be str, not int"):
        admin.messages.view(5)


def test_durations():
    assert seconds(timedelta(milliseconds=1500)) == 1.5
    assert seconds(2) == 2.0
    with pytest.raises(TypeError, match="timeout"):
        seconds("3")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="interval"):
        seconds(-1, "interval")
    with pytest.raises(ValueError, match="timeout"):
        seconds(float("nan"))


def test_settings_take_timedelta():
    assert ClientSettings(heartbeat_interval=timedelta(seconds=9)).heartbeat_interval == 9.0


@pytest.mark.parametrize("topic", ["", " ", "a b", "a/b", "x" * 128, "tøpic"])
def test_illegal_topics(topic):
    with pytest.raises(ValueError, match="topic"):
        check_topic(topic)


def test_group_is_checked():
    with pytest.raises(ValueError, match="DEFAULT_CONSUMER"):
        PushConsumer("DEFAULT_CONSUMER", "a:1")
    with pytest.raises(ValueError, match="group"):
        Producer("a:1", group="a b")
    with pytest.raises(ValueError, match="128"):
        ConsumerSettings(group="x" * 121)


def test_a_misspelt_argument_names_the_nearest():
    with pytest.raises(TypeError, match="did you mean retries"):
        Producer("a:1", retrys=3)  # type: ignore[call-arg]


def test_ranges():
    with pytest.raises(ValueError, match="batch_size must be 1 to 1024"):
        PushConsumer("g", "a:1", batch_size=0)
    with pytest.raises(ValueError, match="time zone"):
        PushConsumer("g", "a:1", consume_from=datetime(2026, 1, 1))
    with pytest.raises(ValueError, match="'newest'"):
        PushConsumer("g", "a:1", consume_from="newest")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="AVG_BY_CIRCLE"):
        PushConsumer("g", "a:1", allocate="HASH")
    with pytest.raises(ValueError, match="topic_count_max must be 1 to 6553500, not 0"):
        PushConsumer("g", "a:1", topic_count_max=0)
    with pytest.raises(TypeError, match="orderly must be bool, not int"):
        PushConsumer("g", "a:1", orderly=1)  # type: ignore[arg-type]


def test_address_map():
    assert read_address_map("172.17.0.2:10911=localhost:1, b:2=c:3") == {
        "172.17.0.2:10911": "localhost:1",
        "b:2": "c:3",
    }
    with pytest.raises(ValueError, match="HOST:PORT=HOST:PORT"):
        read_address_map("b:2")


def test_client_ids_differ():
    settings = ClientSettings(client_ip="192.0.2.1", unit_name="u")
    first, second = settings.client_id(), settings.client_id()
    assert first != second
    assert first.startswith("192.0.2.1@")
    assert first.endswith("@u")
