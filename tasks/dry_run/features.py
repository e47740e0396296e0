"""A pipeline's features on made-up rows: derive, and the encoding of a day."""

from pathlib import Path

from ratchet.contracts.errors import ConfigurationError, DataRejected
from ratchet.contracts.made_columns import made_columns
from ratchet.contracts.pipeline import PipelineSpec
from ratchet.model.derivation import FILE, load_derive
from ratchet.runtime.user_code import is_own
from tasks.dry_run.report import Report
from tasks.dry_run.rows import DAY, write_rows
from tasks.features.day import EncodedDay, encode_day


def try_features(spec: PipelineSpec, folder: Path, scratch: Path, report: Report) -> EncodedDay | None:
    """Load features.py and encode made-up rows as a day is encoded. None if that fails; the report says why."""
    derived = {name: column.type for name, column in spec.columns.items() if column.derived}
    try:
        report.step(f"import of {FILE}")
        derive = load_derive(folder, derived, made_columns(spec.columns))
        report.step(f"derive in {FILE}")
        path = scratch / "rows.parquet"
        write_rows(path, spec)
        (arrays := scratch / "arrays").mkdir()
        return encode_day(path, spec, derive, day=DAY, folder=arrays, where="made-up rows")
    except ConfigurationError as error:
        if _may_be_the_rows(error.__cause__, spec):
            report.unchecked(
                f"derive, which fails for made-up rows: {error.cause}",
                f"correct {FILE}; or, if derive needs text of a certain form, list values in columns.<name>.in",
            )
        else:
            report.problem(error)
    except DataRejected as error:
        report.problem(ConfigurationError(f"{FILE}: {error.cause}", remedy=error.remedy))
    return None


def _may_be_the_rows(error: BaseException | None, spec: PipelineSpec) -> bool:
    """Whether made-up text may be the cause: no rule says what form the text of a column has."""
    free = any(
        column.type == "string" and not column.allowed and not column.derived for column in spec.columns.values()
    )
    by_value = (
        isinstance(error, ValueError | LookupError | ArithmeticError | AssertionError)
        or "'NoneType' object" in str(error)
        or is_own(type(error))
    )
    return free and error is not None and by_value
