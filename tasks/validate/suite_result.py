"""The checks of a night in great-expectations' form, for the tools that read it.

The layout is that of `ExpectationSuiteValidationResult` (great-expectations 1). Rules that the library has under
another name carry that name and its arguments; all others are `expect_ratchet_...`. `success` of the whole is whether
the night goes on: a warning is an unsuccessful result of severity `warning`, and stops nothing.
"""

from collections.abc import Mapping
from typing import Any

from ratchet.contracts.pipeline import PipelineSpec
from ratchet.contracts.request import StageRequest
from ratchet.contracts.summaries import Check, Validation
from tasks.validate.profile import column_of

_OF_LIBRARY = "validate.expectations."


def suite_result(validation: Validation, request: StageRequest) -> dict[str, Any]:
    """The document. The same checks give the same one."""
    results = [_result(check, request.spec) for check in validation.checks]
    good, all_ = sum(check.passed for check in validation.checks), len(results)
    return {
        "success": not any(not check.passed and check.severity == "error" for check in validation.checks),
        "results": results,
        "suite_name": request.spec.name,
        "suite_parameters": {},
        "statistics": {
            "evaluated_expectations": all_,
            "successful_expectations": good,
            "unsuccessful_expectations": all_ - good,
            "success_percent": 100 * good / all_ if all_ else None,
        },
        "meta": {
            "run_id": request.run_id,
            "data_date": request.data_date.isoformat(),
            "rows": validation.rows.get(request.data_date, 0),
            "excluded_days": [day.isoformat() for day in validation.excluded],
        },
        "id": None,
    }


def _result(check: Check, spec: PipelineSpec) -> dict[str, Any]:
    kind, arguments = _expectation(check, spec)
    return {
        "success": check.passed,
        "expectation_config": {
            "type": kind,
            "kwargs": arguments,
            "meta": {"key": check.key, "allowed": check.allowed},
            "severity": "critical" if check.severity == "error" else "warning",
        },
        "result": {"observed_value": check.observed},
        "meta": {"day": check.day.isoformat(), "rule": check.rule},
        "exception_info": {"raised_exception": False, "exception_traceback": None, "exception_message": None},
    }


def _expectation(check: Check, spec: PipelineSpec) -> tuple[str, dict[str, Any]]:
    """The name of the expectation, and its arguments."""
    if check.key.startswith(_OF_LIBRARY):
        one = spec.validate_.expectations[int(check.key.removeprefix(_OF_LIBRARY))]
        return one.type, one.arguments()
    column = {"column": check.column} if check.column else {}
    if check.column and check.key.startswith("columns."):
        same = _same(check.rule, spec.columns[column_of(check.column)].model_dump(mode="json", by_alias=True))
        if same:
            return same[0], {**column, **same[1]}
    return f"expect_ratchet_{check.rule.replace(' ', '_')}", column


def _same(rule: str, column: Mapping[str, Any]) -> tuple[str, dict[str, Any]] | None:
    """The library's expectation that says the same as a rule of a column."""
    if rule == "null" and column["max_null"] is not None:
        share = column["max_null"]
        most = float(share.removesuffix("%")) / 100 if isinstance(share, str) else float(share)
        return "expect_column_values_to_not_be_null", {"mostly": 1 - most}
    if rule in {"min", "max"}:
        return "expect_column_values_to_be_between", {f"{rule}_value": column[rule]}
    if rule == "in":
        return "expect_column_values_to_be_in_set", {"value_set": column["in"]}
    return None
