from pathlib import Path

import pytest

from mqcommon.fastjson import RawKey, dumps, loads

CONFIG = Path(__file__).parents[1] / "golden" / "config"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a":[1,2.5,true,null]}', {"a": [1, 2.5, True, None]}),
        ("{0:5,1:7}", {"0": 5, "1": 7}),
        ("{'a':'b',c:1,}", {"a": "b", "c": 1}),
        ('{{"queueId":0,"topic":"t"}:{"offset":1}}', {'{"queueId":0,"topic":"t"}': {"offset": 1}}),
        (b'{"k":"\xc3\xa9\xff"}', {"k": "é\ufffd"}),
    ],
)
def test_loads(text: bytes | str, value: object) -> None:
    assert loads(text) == value


@pytest.mark.parametrize("text", ["", "{", "{1}", "[1 2]", "{} {}", "[" * 1000, '{"a":huh}'])
def test_bad_text_is_a_value_error(text: str) -> None:
    with pytest.raises(ValueError, match=r"position|Expecting"):
        loads(text)


def test_dumps_is_compact_sorted_and_leaves_out_none() -> None:
    queue = RawKey(dumps({"topic": "t", "queueId": 0}))
    value = {"z": {10: 1, 9: 2}, "a": None, "m": {queue: 1.0}, "é": ["\x01\n", (), set()]}
    text = '{"m":{{"queueId":0,"topic":"t"}:1.0},"z":{"9":2,"10":1},"é":["\\u0001\\n",[],[]]}'
    assert dumps(value) == text


def test_dumps_refuses_what_json_has_not() -> None:
    with pytest.raises(TypeError, match="a bytes cannot be written as JSON"):
        dumps({"a": b"x"})
    with pytest.raises(TypeError, match="a float cannot be a key"):
        dumps({1.5: 1})
    loop: list[object] = []
    loop.append(loop)
    with pytest.raises(RecursionError):
        dumps(loop)


def _typed(value: object, name: str = "") -> object:
    """Give a config file's maps and arrays the types that Java has for them."""
    if isinstance(value, dict):
        numbers = value and all(key.isdigit() for key in value)
        return {int(k) if numbers else k: _typed(v, k) for k, v in value.items()}
    return tuple(value) if name == "bitPos" and isinstance(value, list) else value


def _sorted_lines(text: str) -> list[str]:
    return sorted(line.rstrip(",") for line in text.splitlines())


def test_pretty_text_equals_rocketmqs_config_files() -> None:
    files = sorted(CONFIG.glob("*.json"))
    assert len(files) >= 4
    for path in files:
        text = path.read_text("utf-8")
        again = dumps(_typed(loads(text)), pretty=True)
        assert len(again) == len(text), path.name
        if path.name != "delayOffset.json":  # its numbers on one line are in Java's order
            assert _sorted_lines(again) == _sorted_lines(text), path.name
