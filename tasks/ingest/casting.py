"""Lossless casts from the type of a source to the declared type."""

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from ratchet.contracts.columns import ColumnType
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
    the float converts back to the same decimal. text: also read ISO timestamps and dates from strings, for databases
    without such types.
    """
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
