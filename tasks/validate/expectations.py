"""Checks the expectations of a pipeline with great-expectations, on the rows of one day."""

import difflib
import os
import warnings
from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import Any

from ratchet.contracts.checks import Expectation
from ratchet.contracts.errors import ConfigurationError
from ratchet.contracts.expectations import COMMON_ARGUMENTS, column_arguments
from ratchet.contracts.summaries import Check

_KEY = "validate.expectations"


def check_expectations(day: date, path: Path, expectations: Sequence[Expectation]) -> list[Check]:
    """Check each expectation on the rows of a day's file. Imports great-expectations only if there are any.

    One with `severity: warning` (an argument of great-expectations) does not stop the run.

    Raises ConfigurationError for an expectation, an argument or a column that does not exist.
    """
    if not expectations:
        return []
    # The import of the library reads both: send no statistics, and draw no progress bars in the stage's log.
    os.environ["GX_ANALYTICS_ENABLED"] = "false"
    os.environ["TQDM_DISABLE"] = "1"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import great_expectations as gx
        import pandas as pd

        frame = pd.read_parquet(path)
        built = [_build(i, expectation, list(frame.columns)) for i, expectation in enumerate(expectations)]
        context = gx.get_context(mode="ephemeral")
        context.variables.progress_bars = {"globally": False}
        asset = context.data_sources.add_pandas("snapshot").add_dataframe_asset("day")
        batch = asset.add_batch_definition_whole_dataframe("whole").get_batch({"dataframe": frame})
        return [
            _check(day, i, expectation, batch.validate(ours))
            for i, (expectation, ours) in enumerate(zip(expectations, built, strict=True))
        ]


def _build(place: int, expectation: Expectation, columns: list[str]) -> Any:
    """The library's object for an expectation."""
    from great_expectations.compatibility.pydantic import ValidationError

    known = known_expectations()
    if expectation.type not in known:
        near = difflib.get_close_matches(expectation.type, known, n=1, cutoff=0.5)
        hint = f"did you mean {near[0]}?" if near else f"use one of great-expectations' {len(known)} expectations"
        raise ConfigurationError(f"{_KEY}.{place}.type: {expectation.type} is not an expectation", remedy=hint)
    arguments = expectation.arguments()
    for inside, name in column_arguments(arguments):
        if name not in columns:
            near = difflib.get_close_matches(str(name), columns, n=1)
            raise ConfigurationError(
                f"{_KEY}.{place}.{'.'.join(map(str, inside))}: the snapshot has no column {name!r}",
                remedy=f"did you mean {near[0]}?" if near else f"use one of {', '.join(columns)}",
            )
    try:
        return known[expectation.type](**arguments)
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(step) for step in first["loc"] if step != "__root__")
        allowed = ", ".join(own_arguments(known[expectation.type]))
        raise ConfigurationError(
            f"{_KEY}.{place}{'.' if key else ''}{key}: {first['msg']}",
            remedy=f"{expectation.type} takes {allowed}",
        ) from error


def known_expectations() -> dict[str, Any]:
    """Every expectation of the library, by its name in a pipeline file."""
    import great_expectations.expectations as gxe

    names = [name for name in dir(gxe) if name.startswith("Expect") and name != "Expectation"]
    return {_snake(name): getattr(gxe, name) for name in names}


def own_arguments(kind: Any) -> list[str]:
    """The arguments of an expectation, without those that every expectation takes."""
    return sorted(name for name in kind.__fields__ if name not in COMMON_ARGUMENTS)


def _snake(name: str) -> str:
    out = ""
    for i, letter in enumerate(name):
        if letter.isupper() and i and (not name[i - 1].isupper() or (i + 1 < len(name) and name[i + 1].islower())):
            out += "_"
        out += letter.lower()
    return out


def _check(day: date, place: int, expectation: Expectation, outcome: Any) -> Check:
    arguments = expectation.arguments()
    column = arguments.get("column")
    nothing = _compares_nothing(outcome)
    warns = nothing or arguments.get("severity") in {"warning", "info"}
    rest = {key: value for key, value in arguments.items() if key not in {"column", "severity"}}
    return Check(
        day=day,
        rule=expectation.type,
        column=column if isinstance(column, str) else None,
        passed=bool(outcome.success) and not nothing,
        severity="warning" if warns else "error",
        observed="nothing compared: no row has a value" if nothing else _observation(outcome),
        allowed=", ".join(f"{key} {value}" for key, value in rest.items()) or "see the name of the rule",
        key=f"{_KEY}.{place}",
    )


def _compares_nothing(outcome: Any) -> bool:
    """Whether an expectation holds because every row lacks the value that it is about."""
    result = outcome.result or {}
    rows = result.get("element_count")
    return bool(outcome.success and rows and result.get("missing_count") == rows)


def _observation(outcome: Any) -> str:
    """The finding of the library, in one line."""
    raised = _exception_message(outcome.exception_info)
    if raised:
        return f"could not be checked: {raised.partition(chr(10))[0][:200]}"
    result = outcome.result or {}
    if "observed_value" in result:
        value = result["observed_value"]
        return f"{value:,.6g}" if isinstance(value, float) else str(value)[:200]
    if "unexpected_count" in result:
        found = dict.fromkeys(f"{value!s:.40}" for value in result.get("partial_unexpected_list") or [])
        some = ", ".join(list(found)[:5])
        return f"{result['unexpected_count']:,} unexpected rows{f', such as {some}' if some else ''}"
    return "holds" if outcome.success else "does not hold"


def _exception_message(info: Any) -> str:
    """The message of an exception inside the library, if there was one; the library nests them by metric."""
    if not isinstance(info, dict):
        return ""
    if info.get("raised_exception"):
        return str(info.get("exception_message"))
    return next((found for value in info.values() if (found := _exception_message(value))), "")
