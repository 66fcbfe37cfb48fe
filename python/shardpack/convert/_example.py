"""Parses the wire format of `tf.train.Example`, without generated code or TensorFlow.

::

    Example  { Features features = 1; }          Feature   { BytesList = 1 | FloatList = 2 | Int64List = 3 }
    Features { map<string, Feature> = 1; }       BytesList { repeated bytes = 1; }  FloatList, Int64List: packed or not
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any, Union

import numpy as np

Values = Union["list[bytes]", "np.ndarray[Any, Any]"]
Field = tuple[int, int, Union[int, memoryview]]

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


def parse_example(data: bytes) -> dict[str, Any]:
    """Return the features of an `Example`. Byte strings become lists of bytes, and numbers become int64 or float32
    arrays of one axis.
    """
    view = memoryview(data)
    try:
        # The context of a SequenceExample parses like the features of an Example, but its feature lists would be lost.
        is_sequence = any(number == 2 for number, _, _ in wire_fields(view))
        features = {} if is_sequence else _features(view)
    except ValueError as error:
        raise ValueError(f"the record is damaged or not a tf.train.Example: {error}") from error
    if is_sequence:
        raise ValueError("expected a tf.train.Example, found a SequenceExample, which cannot be converted")
    if not features:
        raise ValueError("the tf.train.Example has no features")
    return features


def _features(data: memoryview) -> dict[str, Any]:
    features: dict[str, Any] = {}
    for message in messages(data, 1):
        for entry in messages(message, 1):
            name, values = _entry(entry)
            if name in features:
                raise ValueError(f"feature {name!r} occurs twice")
            features[name] = values
    return features


def _entry(data: memoryview) -> tuple[str, Values]:
    name = b"".join(messages(data, 1)).decode("utf-8")
    values: Values = []
    for feature in messages(data, 2):
        for number, wire, value in wire_fields(feature):
            if wire != _BYTES or not isinstance(value, memoryview) or number not in (1, 2, 3):
                raise ValueError(f"feature {name!r} is not a list of bytes, floats or integers")
            values = [bytes(item) for item in messages(value, 1)] if number == 1 else _numbers(name, value, number == 2)
    return name, values


def _numbers(name: str, data: memoryview, floats: bool) -> np.ndarray[Any, Any]:
    values: list[Any] = []
    for _number, wire, value in wire_fields(data):
        if floats and wire == _BYTES and isinstance(value, memoryview):
            if len(value) % 4:
                raise ValueError(
                    f"feature {name!r} is damaged: its list of floats has {len(value)} bytes, not a multiple of 4"
                )
            values.extend(np.frombuffer(value, "<f4").tolist())
        elif floats and wire == _FIXED32 and isinstance(value, int):
            values.extend(struct.unpack("<f", value.to_bytes(4, "little")))
        elif not floats and wire == _BYTES and isinstance(value, memoryview):
            at = 0
            while at < len(value):
                integer, at = _varint(value, at)
                values.append(signed(integer))
        elif not floats and wire == _VARINT and isinstance(value, int):
            values.append(signed(value))
        else:
            kind = "floats" if floats else "integers"
            raise ValueError(f"feature {name!r} is damaged: unexpected protobuf wire type {wire} in a list of {kind}")
    return np.array(values, np.float32 if floats else np.int64)


def messages(data: memoryview, number: int) -> Iterator[memoryview]:
    """Yield the messages or byte strings of one field. Other fields are skipped, as Protobuf requires."""
    for found, _wire, value in wire_fields(data):
        if found == number:
            if not isinstance(value, memoryview):
                raise ValueError(f"protobuf field {number} is a number instead of a message")
            yield value


def wire_fields(data: memoryview) -> Iterator[Field]:
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        number, wire = tag >> 3, tag & 7
        if wire == _VARINT:
            value, at = _varint(data, at)
            yield number, wire, value
            continue
        if wire == _BYTES:
            length, at = _varint(data, at)
        elif wire in (_FIXED64, _FIXED32):
            length = 8 if wire == _FIXED64 else 4
        else:
            raise ValueError(f"unknown protobuf wire type {wire}")
        if length > len(data) - at:
            raise ValueError(f"a protobuf field is truncated: it has {len(data) - at} of {length} bytes")
        part = data[at : at + length]
        at += length
        yield number, wire, part if wire == _BYTES else int.from_bytes(part, "little")


def _varint(data: memoryview, at: int) -> tuple[int, int]:
    value = shift = 0
    while at < len(data) and shift < 70:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
    raise ValueError("a protobuf number is truncated or too long")


def signed(value: int) -> int:
    value &= (1 << 64) - 1
    return value - (1 << 64) if value >> 63 else value
