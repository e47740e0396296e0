"""Casts that lose nothing: from whatever type a source has to the declared one, or not at all."""

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from ratchet.contracts.columns import ColumnType
from tasks.ingest.schema import ARROW


class LossyCast(Exception):
    """A column cannot become its declared type without loss: `why` in words."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why


def cast(values: Any, declared: ColumnType, *, text: bool = False) -> Any:
    """An Arrow array as the declared type, every value unchanged. Raises LossyCast.

    Allowed: any width of the same kind; whole numbers between integers, floats, decimals and bools (0, 1); any unit
    and zone of timestamps; dates to timestamps, and back at midnight; nulls to anything. Decimals become floats where
    the float reads back as the same decimal. `text` also reads ISO timestamps and dates from strings, for databases
    that lack such types.
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
    if pa.types.is_timestamp(values.type) and values.type.tz:
        # To microseconds first, then off with the zone: what stays is UTC.
        return pc.cast(pc.cast(values, pa.timestamp(target.unit, values.type.tz)), target)
    return pc.cast(values, target)


def _needs_proof(found: Any, declared: ColumnType) -> bool:
    """Arrow's safe casts look at most pairs; these it lets through with loss."""
    is_ = pa.types
    return (
        (declared == "bool" and is_.is_integer(found))
        or (declared == "date" and is_.is_timestamp(found))
        or (declared == "float64" and is_.is_decimal(found))
    )
