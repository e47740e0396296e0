"""The expectations of great-expectations, for `ratchet check`: to import the library takes ten seconds."""

from collections.abc import Iterator
from contextlib import suppress
from difflib import get_close_matches
from typing import Any

from ratchet.contracts.misfits import Misfit, UnknownKey
from ratchet.contracts.pipeline import PARTITION, PipelineSpec

_SINGLE = frozenset({"column", "column_A", "column_B"})

COMMON_ARGUMENTS = frozenset(
    {
        "id",
        "meta",
        "notes",
        "description",
        "severity",
        "catch_exceptions",
        "rendered_content",
        "result_format",
        "version",
        "batch_id",
        "windows",
        "library_metadata",
        "metric_dependencies",
        "domain_type",
        "args_keys",
        "expectation_type",
        "condition_parser",
        "row_condition",
        "domain_keys",
        "success_keys",
        "examples",
    }
)
"""The arguments that every expectation takes, and that say nothing about the data."""

CATALOGUE = {
    "expect_column_distinct_values_to_be_in_set": "column! value_set!",
    "expect_column_distinct_values_to_contain_set": "column! value_set!",
    "expect_column_distinct_values_to_equal_set": "column! value_set!",
    "expect_column_kl_divergence_to_be_less_than": (
        "bucketize_data column! internal_weight_holdout max_value min_value partition_object tail_weight_holdout "
        "threshold"
    ),
    "expect_column_max_to_be_between": "column! max_value min_value strict_max strict_min",
    "expect_column_mean_to_be_between": "column! max_value min_value strict_max strict_min",
    "expect_column_median_to_be_between": "column! max_value min_value strict_max strict_min",
    "expect_column_min_to_be_between": "column! max_value min_value strict_max strict_min",
    "expect_column_most_common_value_to_be_in_set": "column! ties_okay value_set!",
    "expect_column_pair_values_a_to_be_greater_than_b": "column_A! column_B! ignore_row_if mostly or_equal",
    "expect_column_pair_values_to_be_equal": "column_A! column_B! ignore_row_if mostly",
    "expect_column_pair_values_to_be_in_set": "column_A! column_B! ignore_row_if mostly value_pairs_set!",
    "expect_column_proportion_of_non_null_values_to_be_between": "column! max_value min_value strict_max strict_min",
    "expect_column_proportion_of_unique_values_to_be_between": "column! max_value min_value strict_max strict_min",
    "expect_column_quantile_values_to_be_between": "allow_relative_error column! quantile_ranges!",
    "expect_column_stdev_to_be_between": "column! max_value min_value strict_max strict_min",
    "expect_column_sum_to_be_between": "column! max_value min_value strict_max strict_min",
    "expect_column_to_exist": "column! column_index",
    "expect_column_type_to_be": "column! type_!",
    "expect_column_unique_value_count_to_be_between": "column! max_value min_value strict_max strict_min",
    "expect_column_value_lengths_to_be_between": "column! max_value min_value mostly strict_max strict_min",
    "expect_column_value_lengths_to_equal": "column! mostly value!",
    "expect_column_value_z_scores_to_be_less_than": "column! double_sided! mostly threshold!",
    "expect_column_values_to_be_between": "column! max_value min_value mostly strict_max strict_min",
    "expect_column_values_to_be_dateutil_parseable": "column! mostly",
    "expect_column_values_to_be_decreasing": "column! mostly strictly",
    "expect_column_values_to_be_in_set": "column! mostly value_set!",
    "expect_column_values_to_be_in_type_list": "column! mostly type_list",
    "expect_column_values_to_be_increasing": "column! mostly strictly",
    "expect_column_values_to_be_json_parseable": "column! mostly",
    "expect_column_values_to_be_null": "column! mostly",
    "expect_column_values_to_be_of_type": "column! mostly type_!",
    "expect_column_values_to_be_unique": "column! mostly",
    "expect_column_values_to_match_json_schema": "column! json_schema! mostly",
    "expect_column_values_to_match_like_pattern": "column! escape like_pattern! mostly",
    "expect_column_values_to_match_like_pattern_list": "column! escape like_pattern_list! match_on mostly",
    "expect_column_values_to_match_regex": "column! mostly regex",
    "expect_column_values_to_match_regex_list": "column! match_on mostly regex_list!",
    "expect_column_values_to_match_strftime_format": "column! mostly strftime_format!",
    "expect_column_values_to_not_be_in_set": "column! mostly value_set!",
    "expect_column_values_to_not_be_null": "column! mostly",
    "expect_column_values_to_not_be_outliers": "column! method mostly multiplier",
    "expect_column_values_to_not_match_like_pattern": "column! escape like_pattern! mostly",
    "expect_column_values_to_not_match_like_pattern_list": "column! escape like_pattern_list! mostly",
    "expect_column_values_to_not_match_regex": "column! mostly regex!",
    "expect_column_values_to_not_match_regex_list": "column! mostly regex_list!",
    "expect_compound_columns_to_be_unique": "column_list! ignore_row_if mostly",
    "expect_multicolumn_sum_to_equal": "column_list! ignore_row_if mostly sum_total!",
    "expect_multicolumn_values_to_be_equal": "column_list! ignore_row_if mostly",
    "expect_multicolumn_values_to_be_unique": "column! column_list! ignore_row_if mostly",
    "expect_query_results_to_match_comparison": "base_query! comparison_data_source_name! comparison_query! mostly",
    "expect_select_column_values_to_be_unique_within_record": "column_list! ignore_row_if mostly",
    "expect_table_column_count_to_be_between": "max_value min_value",
    "expect_table_column_count_to_equal": "value!",
    "expect_table_columns_to_match_ordered_list": "column_list",
    "expect_table_columns_to_match_set": "column_set exact_match",
    "expect_table_row_count_to_be_between": "max_value min_value strict_max strict_min",
    "expect_table_row_count_to_equal": "value!",
    "expect_table_row_count_to_equal_other_table": "other_table_name!",
}
"""The arguments of each expectation; `!` marks the required ones. A test compares the catalogue with the library."""


def column_arguments(arguments: dict[str, Any]) -> Iterator[tuple[tuple[str | int, ...], Any]]:
    """The columns that the arguments of an expectation name, each with its place in the arguments."""
    for key, value in arguments.items():
        if key in _SINGLE:
            yield (key,), value
        elif key == "column_list" and isinstance(value, list):
            yield from (((key, place), name) for place, name in enumerate(value))


def types_exist(spec: PipelineSpec) -> Iterator[Misfit]:
    """Check that each expectation exists in great-expectations and takes its arguments."""
    for place, expectation in enumerate(spec.validate_.expectations):
        with suppress(UnknownKey):
            yield from _check_expectation(
                ("validate", "expectations", place), expectation.type, expectation.arguments()
            )


def _check_expectation(key: tuple[str | int, ...], name: str, arguments: dict[str, Any]) -> Iterator[Misfit]:
    if name not in CATALOGUE:
        near = get_close_matches(name, CATALOGUE, n=1)
        yield Misfit((*key, "type"), f"{name!r} is not an expectation of great-expectations", "", *near)
        return
    listed = CATALOGUE[name].split()
    takes = [argument.rstrip("!") for argument in listed]
    for argument in arguments:
        if argument not in takes and argument not in COMMON_ARGUMENTS:
            near = get_close_matches(argument, takes, n=1)
            yield Misfit((*key, argument), f"{name} takes no such argument", ", ".join(takes), *near)
    for argument in listed:
        if argument.endswith("!") and argument[:-1] not in arguments:
            yield Misfit((*key, argument[:-1]), "is missing")


def columns_exist(spec: PipelineSpec) -> Iterator[Misfit]:
    """Check that the snapshot has the columns that each expectation names; it has no derived ones."""
    existing = [name for name, column in spec.columns.items() if not getattr(column, "derived", False)]
    existing.append(PARTITION)
    for place, expectation in enumerate(spec.validate_.expectations):
        with suppress(UnknownKey):
            for inside, name in column_arguments(expectation.arguments()):
                if name not in existing:
                    near = get_close_matches(str(name), existing, n=1)
                    message = f"the snapshot has no column {name!r}"
                    yield Misfit(("validate", "expectations", place, *inside), message, ", ".join(existing), *near)
