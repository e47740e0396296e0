"""What a collection did, or would do, in words."""

from collections.abc import Iterator, Sequence
from typing import Any

from ratchet.collection.findings import Collected, Sum, Sums
from ratchet.contracts.collection import Policy
from ratchet.contracts.errors import Unavailable
from ratchet.pages.words import count


def lines(found: Sequence[Collected], policy: Policy, *, apply: bool) -> Iterator[str]:
    """For people: the policy, what went and what stays with the reasons, and the sum."""
    yield (
        f"policy: results of runs {policy.results} days, their records {policy.runs} days, the last {policy.last} runs "
        f"of a pipeline whole, and everything {policy.grace} days"
    )
    for one in found:
        yield one.pipeline or one.of
        if one.unchecked:
            yield f"  could not be checked, so nothing goes: {one.unchecked}"
        for verb, sums in (("gone" if apply else "goes", one.goes), ("stays", one.stays)):
            for (kind, why), each in sorted(sums.items()):
                yield f"  {verb}  {kind}: {_size(each)}; {why}"
        if one.left:
            yield f"  {one.left}"
    yield f"{_size(total(found))} {'deleted' if apply else 'would go; nothing was deleted, --apply deletes'}"


def total(found: Sequence[Collected]) -> Sum:
    """What went, or would go."""
    each = [one for collected in found for one in collected.goes.values()]
    return Sum(sum(one.objects for one in each), sum(one.bytes for one in each))


def unchecked_error(found: Sequence[Collected]) -> Unavailable | None:
    """The error that names the pipelines which could not be checked; None if all could be."""
    failed = [one for one in found if one.unchecked]
    if not failed:
        return None
    names = "; ".join(f"{one.pipeline or one.of}: {one.unchecked}" for one in failed)
    return Unavailable(f"nothing was deleted of what could not be checked: {names}", remedy="do what each line says")


def plain(found: Sequence[Collected]) -> list[dict[str, Any]]:
    """For programs."""
    return [
        {
            "pipeline": one.pipeline or None,
            "of": one.pipeline or one.of,
            "goes": _rows(one.goes),
            "stays": _rows(one.stays),
            "unchecked": one.unchecked or None,
            "left": one.left or None,
        }
        for one in found
    ]


def _rows(sums: Sums) -> list[dict[str, Any]]:
    return [
        {"kind": kind, "why": why, "objects": each.objects, "bytes": each.bytes}
        for (kind, why), each in sorted(sums.items())
    ]


def _size(one: Sum) -> str:
    return f"{count(one.objects, 'object')}, {one.bytes:,} bytes"
