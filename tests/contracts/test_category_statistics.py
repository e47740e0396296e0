"""Statistics of a category: what a file may declare."""

import pytest
import yaml

from ratchet.contracts.category_statistics import name_of, statistics_of
from ratchet.contracts.errors import PipelineInvalid
from ratchet.contracts.loading import loads


def text(column: dict[str, object], *, objective: str = "binary", window: int = 28) -> str:
    label = {"in": [0, 1, 2]} if objective == "multiclass" else {}
    return yaml.safe_dump(
        {
            "name": "small",
            "source": {"kind": "files", "uri": "/data/{date}.csv", "window_days": window},
            "columns": {
                "x": {"role": "numeric", "type": "float64"},
                "item": {"role": "categorical", "type": "string", **column},
                "place": {"role": "categorical", "type": "string", "statistics": ["count"]},
                "y": {"role": "label", "type": "int64", **label},
            },
            "train": {"objective": objective},
        },
        sort_keys=False,
    )


def test_they_come_in_the_order_of_the_file() -> None:
    spec = loads(text({"statistics": ["target_mean", "count"]}))
    assert statistics_of(spec) == (("item", "target_mean"), ("item", "count"), ("place", "count"))
    assert name_of("item", "target_mean") == "target_mean of item"


def test_a_pipeline_of_classes_may_count() -> None:
    assert len(statistics_of(loads(text({"statistics": ["count"]}, objective="multiclass")))) == 2


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (
            text({"statistics": ["mean"]}),
            "columns.item.statistics.0: 'mean' is not allowed; allowed: count, target_mean",
        ),
        (text({"role": "numeric", "type": "int64", "statistics": ["count"]}), "statistics need role categorical"),
        (text({"statistics": ["count", "count"]}), "columns.item: statistics names one twice"),
        (
            text({"statistics": ["target_mean"]}, objective="multiclass"),
            "item.statistics: the number of a class has no",
        ),
        (text({}, window=3), "window_days: statistics of categories need 2 training days, and this window has 1"),
    ],
)
def test_what_has_no_meaning_is_refused(given: str, said: str) -> None:
    with pytest.raises(PipelineInvalid) as raised:
        loads(given)
    assert said in str(raised.value)
