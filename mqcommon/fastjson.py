"""fastjson's dialect of JSON, which RocketMQ uses in bodies and config files.

It is nearly JSON: keys may be bare numbers (`{0:"a"}`), words, or whole objects
(`{{"brokerName":"b","queueId":0,"topic":"t"}:5}`), and commas may be repeated.
"""

import json

from mqcommon import _core

__all__ = ["RawKey", "dumps", "loads"]


class RawKey(str):
    """The JSON text of an object that is used as a key; `dumps` writes it without quotes.

    RocketMQ writes maps with message queues as keys like this, and the Go client accepts only this
    form.
    """

    __slots__ = ()


def loads(text: bytes | str) -> object:
    """Parse fastjson's text.

    Keys are always `str`: a bare number becomes its digits, an object key becomes the string of
    that object's JSON (read it with `loads` again). Bytes that are not UTF-8 are replaced.
    Nesting is limited to 120 levels and text to 64 MiB; ValueError beyond that and on bad text.
    Half of a surrogate pair becomes a question mark, as when Java writes it, because such text
    could not be encoded.

    >>> loads('{0:"a",{"queueId":1}:2}')
    {'0': 'a', '{"queueId":1}': 2}
    """
    if not isinstance(text, str):
        text = text.decode("utf-8", "replace")
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = json.loads(_core.fastjson_to_strict(text))
    if "\\ud" not in text and "\\uD" not in text:
        return value
    try:
        return _whole(value)
    except RecursionError as error:
        raise ValueError("nested too deep") from error


def _whole(value: object) -> object:
    if isinstance(value, str):
        return value.encode(errors="replace").decode()
    if isinstance(value, dict):
        return {_whole(key): _whole(item) for key, item in value.items()}
    return [_whole(item) for item in value] if isinstance(value, list) else value


def dumps(value: object, *, pretty: bool = False) -> str:
    """Write text as fastjson does: keys sorted, None members omitted, non-ASCII unescaped.

    value: dict, list, tuple, set, str, int, float, bool, None. Keys are str, int or `RawKey`.
    pretty: as RocketMQ's config files: TAB indent, LF, number keys bare and on one line; a list
    goes line by line, a tuple or set (Java's arrays and sets) on one.

    >>> dumps({"b": [1, 2.0], "a": None, "c": {1: True}})
    '{"b":[1,2.0],"c":{"1":true}}'
    """
    return _core.fastjson_dumps(value, pretty, RawKey)
