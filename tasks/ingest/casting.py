"""Lossless casts from the type of a source to the declared type."""

import json
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from ratchet.contracts.columns import LISTS, ColumnType
from tasks.ingest.schema import ARROW


class LossyCast(Exception):
    """A column cannot become its declared type without loss. why: the reason."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why


def cast(values: Any, declared: ColumnType, *, text: bool = False) -> Any:
    """Cast an Arrow array to the declared type, with every value unchanged. Raises LossyCast.

    Allowed: any width of the same kind; whole numbers between integers, floats, decimals and bools (0, 1); any unit
    and zone of timestamps; dates to timestamps, and back at midnight; nulls to anything. A decimal becomes a float if
    the float converts back to the same decimal. A list of any kind to a list, value by value; none may be missing in
    it. text: also read ISO timestamps and dates, and lists as JSON, from strings, for sources without such types.
    """
    if declared in LISTS:
        return _cast_lists(values, declared, text=text)
    target = ARROW[declared]
    if pa.types.is_dictionary(values.type):
        values = pc.cast(values, values.type.value_type)
    if values.type == target:
        return values
    if not _same_kind(values.type, declared, text=text):
        raise LossyCast("another kind of value")
    try:
        cast_ = _convert(values, target)
        if _needs_proof(values.type, declared) and not pc.cast(cast_, values.type).equals(values):
            raise LossyCast("values would change")
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise LossyCast(str(error).partition("\n")[0]) from error
    return cast_


def _cast_lists(values: Any, declared: ColumnType, *, text: bool) -> Any:
    """A list array, value by value."""
    kind, target = LISTS[declared], ARROW[declared]
    if text and (pa.types.is_string(values.type) or pa.types.is_large_string(values.type)):
        values = _read_json(values)
    if pa.types.is_null(values.type):
        return pc.cast(values, target)
    if not _is_list(values.type):
        raise LossyCast("another kind of value; a list is needed")
    try:
        plain = values.cast(pa.list_(values.type.value_type))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise LossyCast(str(error).partition("\n")[0]) from error
    # a missing list may have values in memory, and a slice begins anywhere: flatten leaves both out
    flat = plain.flatten()
    if flat.null_count:
        raise LossyCast("a value in a list is missing; leave it out, or make the list missing")
    lengths = pc.fill_null(pc.list_value_length(plain), 0).cast(pa.int32())
    ends = pc.cumulative_sum(lengths)
    offsets = pa.concat_arrays([pa.array([0], pa.int32()), ends])
    return pa.ListArray.from_arrays(offsets, cast(flat, kind), type=target, mask=plain.is_null())


def _is_list(found: Any) -> bool:
    is_ = pa.types
    kinds = (is_.is_list, is_.is_large_list, is_.is_fixed_size_list, is_.is_list_view, is_.is_large_list_view)
    return any(kind(found) for kind in kinds)


def _read_json(values: Any) -> Any:
    """Lists from their JSON, as in `[1, 2]`."""
    found = []
    for value in values.to_pylist():
        try:
            found.append(None if value is None else json.loads(value))
        except (ValueError, RecursionError):
            raise LossyCast(f"{value[:40]!r} is no list in JSON, as in [1, 2]") from None
    strange = next((value for value in found if value is not None and not isinstance(value, list)), None)
    if strange is not None:
        raise LossyCast(f"{strange!r:.40} is no list in JSON, as in [1, 2]")
    try:
        return pa.array(found, pa.list_(pa.null())) if not any(found) else pa.array(found)
    except OverflowError as error:
        raise LossyCast("a number in a list is beyond the range of int64") from error
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise LossyCast(f"values of several kinds in a list: {error}") from error


def _same_kind(found: Any, declared: ColumnType, *, text: bool) -> bool:
    is_ = pa.types
    if is_.is_null(found):
        return True
    number = is_.is_integer(found) or is_.is_boolean(found) or is_.is_decimal(found) or is_.is_floating(found)
    moment = is_.is_timestamp(found) or is_.is_date(found)
    string = is_.is_string(found) or is_.is_large_string(found) or is_.is_string_view(found)
    kinds: dict[ColumnType, bool] = {
        "int64": number,
        "float64": number,
        "bool": is_.is_boolean(found) or is_.is_integer(found),
        "string": string,
        "timestamp": moment or (text and string),
        "date": moment or (text and string),
    }
    return kinds[declared]


def _convert(values: Any, target: Any) -> Any:
    if pa.types.is_timestamp(values.type) and values.type.tz and pa.types.is_date(target):
        values = pc.cast(values, pa.timestamp(values.type.unit))
    if pa.types.is_date64(values.type) and pa.types.is_timestamp(target):
        values = pc.cast(values, pa.timestamp("ms"))
    if pa.types.is_boolean(values.type):
        values = pc.cast(values, pa.int8())
    if pa.types.is_float16(values.type):
        values = pc.cast(values, pa.float32())
    if pa.types.is_string(values.type) and pa.types.is_timestamp(target):
        values = _read_timestamps(values, target)
    if pa.types.is_timestamp(values.type) and values.type.tz:
        # To microseconds first, then without the zone: the result is UTC.
        return pc.cast(pc.cast(values, pa.timestamp(target.unit, values.type.tz)), target)
    return pc.cast(values, target)


def _read_timestamps(values: Any, target: Any) -> Any:
    """Timestamps from text, all with a zone or all without one."""
    try:
        return pc.cast(values, target)
    except pa.ArrowInvalid as error:
        if "expected no zone offset" not in str(error):
            raise
        return pc.cast(values, pa.timestamp(target.unit, "UTC"))


def _needs_proof(found: Any, declared: ColumnType) -> bool:
    """Whether Arrow's safe cast of this pair of types can lose something."""
    is_ = pa.types
    return (
        (declared == "bool" and is_.is_integer(found))
        or (declared == "date" and is_.is_timestamp(found))
        or (declared == "float64" and is_.is_decimal(found))
    )
