"""Arguments are checked where they are given, and the error names the argument."""

import re
from datetime import datetime

import pytest

import mqclient
from mqclient import (
    CheckLimits,
    ClientId,
    Connection,
    Credentials,
    Limits,
    Linger,
    LitePull,
    LitePullConsumer,
    Message,
    Orderly,
    Producer,
    Pull,
    PushConsumer,
    Retry,
    TlsConfig,
    Trace,
    aio,
)
from mqclient.blocking.admin import Admin
from mqclient.settings.checks import check_topic, namesrv_addresses, read_address_map, seconds
from mqclient.settings.clients import ConnectionOptions
from mqclient.settings.consumers import PushOptions
from mqclient.settings.declare import rows
from scripts.client_options_page import CLIENTS, VALUES
from tests.client.cluster import Cluster


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
        ("connection", 3, "connection must be a Connection, not 3"),
        ("connection", Pull(), r"connection must be a Connection, not Pull\(\)"),
        ("connection", {"serialize": None}, "connection must be a Connection, not "),
        ("credentials", ("a", "b"), "credentials must be a Credentials or None, not "),
        ("tls", True, "tls must be a TlsConfig or None, not True"),
        ("client_id", "a@b", "client_id must be a ClientId, not 'a@b'"),
        ("transport", 5, r"transport must be a transport such as MockTransport\(\), not 5"),
        ("conection", 3, "unknown argument 'conection'; did you mean connection"),
    ],
)
def test_arguments_of_every_client_are_named(make, argument, value, words):
    with pytest.raises((TypeError, ValueError), match=words):
        make("a:1", **{argument: value})


@pytest.mark.parametrize(
    ("argument", "value", "words"),
    [
        ("address_map", "a=b", "address_map must be a mapping of .* not str"),
        ("address_map", 5, "address_map must be a mapping of .* not int"),
        ("address_map", {"a:1": 5}, "address_map holds 5; an address must be str"),
        ("address_map", {"a": "b:2"}, "address_map holds 'a', which is not HOST:PORT"),
        ("request_timeout", "3", "request_timeout must be a number of seconds, not '3'"),
        ("request_timeout", 5000, "300 seconds, not 5000; give seconds, not milliseconds"),
        ("heartbeat_interval", 30000, "3_600 seconds, not 30000; give seconds, not milli"),
        ("route_poll_interval", 30000, "3_600 seconds, not 30000; give seconds, not milli"),
        ("serialize", "json", "serialize must be SerializeType or None, not 'json'"),
        ("requst_timeout", 3, "unknown argument 'requst_timeout'; did you mean request_timeout"),
    ],
)
def test_parts_of_a_connection_are_named(argument, value, words):
    with pytest.raises((TypeError, ValueError), match=words):
        Connection(**{argument: value})


@pytest.mark.parametrize(
    ("argument", "value", "words"),
    [
        ("queue_index_start", "x", "queue_index_start must be a whole number or None, not 'x'"),
        ("queue_index_start", -1, "queue_index_start must be 0 to"),
        ("timeout", True, "timeout must be a number of seconds, not True"),
        ("retry", Linger(), r"retry must be a Retry, not Linger\(\)"),
        ("limits", Limits(), r"limits must be a SendLimits, not Limits\(\)"),
        ("linger", 0.1, "linger must be a Linger or None, not 0.1"),
        ("compression", "zstd", "compression must be a Compression or None, not 'zstd'"),
        ("trace", True, "trace must be a Trace or None, not True"),
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
        ({"commit_interval": "5"}, "commit_interval must be a number of seconds or None, not '5'"),
        ({"commit_interval": 0}, "commit_interval must be 0.01 to 600 seconds, not 0"),
        ({"pull": Pull(batch=3)}, r"pull must be a LitePull, not Pull\(batch=3\)"),
        ({"limits": Limits()}, r"limits must be a LitePullLimits, not Limits\(\)"),
        ({"namesvr": "a:1"}, "unknown argument 'namesvr'"),
        ({"clientid": "x"}, "did you mean client_id"),
    ],
)
def test_arguments_of_a_lite_pull_consumer_are_named(arguments, words):
    with pytest.raises((TypeError, ValueError), match=words):
        LitePullConsumer(**{"namesrv": "a:1", **arguments})


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Retry(max_retry=3), "unknown argument 'max_retry'; did you mean max_retries"),
        (lambda: Retry(max_retries=-1), "max_retries must be 0 to 100, not -1"),
        (lambda: Retry(not_durable="no"), "not_durable must be bool, not 'no'"),
        (lambda: Linger("5ms"), "wait must be a number of seconds, not '5ms'"),
        (lambda: Limits(queue_messages=0), "queue_messages must be 1 to 65_535 messages, not 0"),
        (lambda: ClientId(ip=5), "ip must be str or None, not 5"),
        (lambda: Pull(batch=0), "batch must be 1 to 1_024 messages, not 0"),
        (lambda: LitePull(batch=1025), "batch must be 1 to 1_024 messages, not 1025"),
        (lambda: LitePull(interval=1), "interval is for push consumers; leave it out"),
        (lambda: CheckLimits(concurrency=0), "concurrency must be 1 to 1_000 checks, not 0"),
        (lambda: CheckLimits(queue_max=1.5), "queue_max must be a whole number of checks"),
        (lambda: Credentials("a"), "missing argument 'secret_key': secret of the account"),
        (lambda: Credentials("a", 5), "secret_key must be str, not int"),
        (lambda: Trace(5), "topic must be str, not int"),
    ],
)
def test_fields_of_values_are_named(make, words):
    with pytest.raises((TypeError, ValueError), match=words):
        make()


def test_values_do_not_change_and_show_what_differs():
    limits = Limits(queue_messages=5)
    with pytest.raises(AttributeError):
        limits.queue_messages = 6
    assert repr(limits) == "Limits(queue_messages=5)"
    assert limits == Limits(queue_messages=5) != Limits()


@pytest.mark.parametrize("name", ["ca_file", "cert_file", "key_file", "key_password"])
def test_arguments_of_tls_are_named(name):
    with pytest.raises(TypeError, match=f"{name} must be"):
        TlsConfig(**{name: 5})


def test_a_message_id_of_another_type_is_named():
    with Admin("a:1") as admin, pytest.raises(TypeError, match="message id must be str, not int"):
        admin.messages.view(5)


def test_durations():
    assert seconds(2) == 2.0
    with pytest.raises(TypeError, match="timeout"):
        seconds("3")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="interval"):
        seconds(-1, "interval")
    with pytest.raises(ValueError, match="timeout"):
        seconds(float("nan"))
    with pytest.raises(ValueError, match=r"at most 3600 seconds, not inf$"):
        seconds(float("inf"))


IN_MILLISECONDS = [
    (PushConsumer, {"commit_interval": 5000}),
    (LitePullConsumer, {"commit_interval": 5000}),
    (PushConsumer, {"rebalance_interval": 20_000}),
    (LitePullConsumer, {"rebalance_interval": 20_000}),
]


@pytest.mark.parametrize("face", [mqclient, aio], ids=["blocking", "asyncio"])
@pytest.mark.parametrize(("kind", "options"), IN_MILLISECONDS)
def test_milliseconds_are_refused_by_consumers(face, kind, options):
    ((name, value),) = options.items()
    with pytest.raises(ValueError, match=f"{name} must be .*not {value}; give seconds, not milli"):
        getattr(face, kind.__name__)("g", "a:1", **options)


@pytest.mark.parametrize(
    ("make", "options"),
    [
        (Pull, {"long_poll_timeout": 15_000}),
        (Pull, {"long_poll_timeout": 500}),
        (LitePull, {"long_poll_timeout": 500}),
        (Pull, {"interval": 100}),
        (Orderly, {"retry_delay": 1000}),
    ],
)
def test_milliseconds_are_refused_by_values(make, options):
    ((name, value),) = options.items()
    with pytest.raises(ValueError, match=f"{name} must be .*not {value}; give seconds, not milli"):
        make(**options)


@pytest.mark.parametrize("face", [mqclient, aio], ids=["blocking", "asyncio"])
def test_milliseconds_are_refused_by_producers(face):
    for made in (lambda: face.Producer(timeout=500), lambda: face.Admin("a:1", timeout=500)):
        with pytest.raises(ValueError, match=r"timeout must be .*500; give seconds, not millisec"):
            made()
    with pytest.raises(ValueError, match=r"wait must be .* not 5; give seconds, not milli"):
        Linger(5)


async def test_milliseconds_are_refused_by_calls():
    transport, words = Cluster(T=1).transport, "at most 300 seconds, not 500; give seconds, not mi"
    with mqclient.Producer("a:1", transport=transport) as producer:
        for call in (producer.send, producer.send_async, producer.request):
            with pytest.raises(ValueError, match=words):
                call(Message("T", b"x"), timeout=500)
        with pytest.raises(ValueError, match="at most 3600 seconds, not 20000; give seconds"):
            producer.flush(20_000)
    async with aio.Producer("a:1", transport=transport) as sender:
        for send in (sender.send, sender.request):
            with pytest.raises(ValueError, match=words):
                await send(Message("T", b"x"), timeout=500)
    with mqclient.LitePullConsumer("g", "a:1", transport=transport) as lite:
        lite.subscribe("T")
        with pytest.raises(ValueError, match=words):
            lite.poll(timeout=500)
    async with aio.LitePullConsumer("g", "a:1", transport=transport) as lite:
        lite.subscribe("T")
        with pytest.raises(ValueError, match=words):
            await lite.poll(timeout=500)


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
        PushOptions("x" * 121)


def test_a_misspelt_argument_names_the_nearest():
    with pytest.raises(TypeError, match="did you mean retry"):
        Producer("a:1", retrys=3)  # type: ignore[call-arg]


@pytest.mark.parametrize("face", [mqclient, aio], ids=["blocking", "asyncio"])
@pytest.mark.parametrize(
    ("kind", "name", "hint"),
    [
        ("Producer", "bootstrap_servers", "here it is namesrv$"),
        ("Producer", "linger_ms", r"here it is linger=Linger\(seconds\)$"),
        ("Producer", "acks", r"raise_for_status\(\) tells .*; leave it out$"),
        ("PushConsumer", "group_id", "here it is group$"),
        ("PushConsumer", "groupId", "here it is group$"),
        ("PushConsumer", "max_reconsume_times", "here it is max_retries$"),
        ("PushConsumer", "maxReconsumeTimes", "here it is max_retries$"),
        ("PushConsumer", "concurrency", "here it is threads$"),
        ("PushConsumer", "max_poll_records", "here it is batch_size$"),
        ("LitePullConsumer", "max_poll_records", r"; poll\(max_messages\) says how many; leave"),
        ("LitePullConsumer", "enable_auto_commit", r"here it is commit_interval=None, to commit"),
        ("LitePullConsumer", "auto.offset.reset", "here it is consume_from$"),
        ("LitePullConsumer", "ack_wait", r"(?<=wait')$"),
        ("PushConsumer", "pullBatchSize", r"here it is pull=Pull\(batch=...\)$"),
        ("LitePullConsumer", "pullBatchSize", r"here it is pull=LitePull\(batch=...\)$"),
        ("PushConsumer", "pullInterval", r"here it is pull=Pull\(interval=...\), in seconds$"),
        ("LitePullConsumer", "pullInterval", "only push consumers pause; leave it out"),
        ("LitePullConsumer", "prefetch_count", r"limits=LitePullLimits\(queue_messages=...\)$"),
        ("Producer", "retries", r"here it is retry=Retry\(max_retries=...\)$"),
        ("Producer", "topic", "messages and subscriptions name their topic; leave it out$"),
    ],
)
def test_names_of_other_clients_are_translated(face, kind, name, hint):
    with pytest.raises(TypeError, match=f"unknown argument '{name}'.*{hint}"):
        getattr(face, kind)(**{name: 1})


@pytest.mark.parametrize(
    ("kind", "name", "hint"),
    [
        ("Admin", "request_timeout", "connection=Connection(request_timeout=...)"),
        ("Admin", "requst_timeout", "connection=Connection(request_timeout=...)"),
        ("Producer", "serialize", "connection=Connection(serialize=...)"),
        ("PushConsumer", "pull_batch", "pull=Pull(batch=...)"),
        ("PushConsumer", "long_poll_timeout", "pull=Pull(long_poll_timeout=...)"),
        ("PushConsumer", "orderly_retry_delay", "orderly=Orderly(retry_delay=...)"),
        ("LitePullConsumer", "pull_batch", "pull=LitePull(batch=...)"),
        ("LitePullConsumer", "long_poll_timeout", "pull=LitePull(long_poll_timeout=...)"),
        ("TransactionProducer", "check_concurrency", "check_limits=CheckLimits(concurrency=...)"),
        ("TransactionProducer", "check_queue_max", "check_limits=CheckLimits(queue_max=...)"),
    ],
)
def test_a_part_of_a_value_gets_its_place(kind, name, hint):
    with pytest.raises(TypeError, match=re.escape(f"'{name}'; did you mean {hint}?")):
        getattr(mqclient, kind)(**{name: 1})


def test_ranges():
    with pytest.raises(ValueError, match="batch_size must be 1 to 1_024 messages"):
        PushConsumer("g", "a:1", batch_size=0)
    with pytest.raises(ValueError, match="time zone"):
        PushConsumer("g", "a:1", consume_from=datetime(2026, 1, 1))
    with pytest.raises(ValueError, match="'newest'"):
        PushConsumer("g", "a:1", consume_from="newest")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="AVG_BY_CIRCLE"):
        PushConsumer("g", "a:1", allocate="HASH")
    with pytest.raises(TypeError, match="orderly must be bool or an Orderly, not 1"):
        PushConsumer("g", "a:1", orderly=1)  # type: ignore[arg-type]


def test_address_map():
    assert read_address_map("172.17.0.2:10911=localhost:1, b:2=c:3") == {
        "172.17.0.2:10911": "localhost:1",
        "b:2": "c:3",
    }
    with pytest.raises(ValueError, match="HOST:PORT=HOST:PORT"):
        read_address_map("b:2")


def test_client_ids_differ():
    settings = ConnectionOptions(client_id=ClientId(ip="192.0.2.1", unit="u"))
    first, second = settings.new_client_id(), settings.new_client_id()
    assert first != second
    assert first.startswith("192.0.2.1@")
    assert first.endswith("@u")


@pytest.mark.parametrize("face", [mqclient, aio])
@pytest.mark.parametrize(
    ("client", "options", "words"),
    [
        ("PushConsumer", {"model": "broadcasting", "max_retries": 3}, "for model='clustering'"),
        ("PushConsumer", {"model": "broadcasting", "allocate": "AVG_BY_CIRCLE"}, "'clustering'"),
        ("LitePullConsumer", {"group": None, "commit_interval": 1}, "commits nothing; name a "),
    ],
)
def test_an_option_without_effect_is_refused(face, client, options, words):
    name = [*options][-1]
    with pytest.raises(ValueError, match=f"{name}={options[name]!r}.* would be ignored: .*{words}"):
        getattr(face, client)(**{"group": "g", **options})


class Odd:
    """No option is one."""

    def __repr__(self):
        return "odd"


NEEDED = {
    "PushOptions": {"group": "g"},
    "TransactionOptions": {"group": "g", "check": lambda message: None},
    "Credentials": {"access_key": "a", "secret_key": "s"},
}
FACES = {
    "Admin": mqclient.AdminOptions,
    "LitePullConsumer": mqclient.LitePullOptions,
    "Producer": mqclient.ProducerOptions,
    "PushConsumer": mqclient.PushOptions,
    "TransactionProducer": mqclient.TransactionOptions,
}
CONSTRUCTORS = [
    *((kind, kind) for kind in [*(kind for kind, _, _ in CLIENTS.values()), *VALUES]),
    *((getattr(face, name), kind) for face in (mqclient, aio) for name, kind in FACES.items()),
]


@pytest.mark.parametrize(("make", "kind"), CONSTRUCTORS)
def test_every_option_names_itself_in_its_error(make, kind):
    needed = NEEDED.get(kind.__name__, {})
    for row in rows(kind):
        for value in (Odd(), [Odd()], -5, float("nan"), {"a": 1}, b"x"):
            with pytest.raises((TypeError, ValueError)) as found:
                make(**{**needed, row.name: value})
            assert row.name.removesuffix("s") in str(found.value)


@pytest.mark.parametrize(("make", "kind"), CONSTRUCTORS)
def test_every_misspelt_option_gets_a_hint(make, kind):
    needed = NEEDED.get(kind.__name__, {})
    for row in rows(kind):
        hint = f"unknown argument '{row.name}_'; (did you mean|here it is) "
        with pytest.raises(TypeError, match=hint):
            make(**{**needed, f"{row.name}_": 1})
