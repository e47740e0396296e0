"""Pipeline files: valid files load, and all problems of an invalid one are reported at once, with their lines."""

import contextlib
import json
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from ratchet.cli.check import explain
from ratchet.contracts.errors import PipelineInvalid
from ratchet.contracts.exits import ExitCode
from ratchet.contracts.loading import load, loads
from ratchet.contracts.patterns import IN_WORDS
from ratchet.contracts.pipeline import PipelineSpec
from ratchet.contracts.yaml_lines import MAX_BYTES, parse_scalar

FILE = Path(__file__).parent / "ranking.yaml"
TEXT = FILE.read_text(encoding="utf-8")
MINIMAL = """
name: small
source: {kind: files, uri: "/data/date={date}/*.parquet"}
columns:
  x: {role: numeric, type: float64}
  y: {role: label, type: int64}
train: {objective: binary}
"""


def problems(text: str, **overrides: object) -> list[str]:
    with pytest.raises(PipelineInvalid) as raised:
        loads(text, "p.yaml", {key.replace("__", "."): value for key, value in overrides.items()})
    assert raised.value.code is ExitCode.BAD_CONFIGURATION
    assert str(raised.value) == raised.value.cause
    return str(raised.value).splitlines()


def changed(old: str, new: str) -> str:
    assert old in TEXT
    return TEXT.replace(old, new)


def test_the_documented_file_loads_unchanged() -> None:
    spec = load(FILE)
    assert spec.name == "search-ranking"
    assert spec.columns["price"].max_null == 0.01
    assert spec.columns["country"].allowed == ("DE", "FR", "US")
    assert spec.schedule
    assert spec.schedule.finish_by == 4 * 3600
    assert spec.train.checkpoint.every == 20 * 60
    assert spec.gate.min_gain == 0.005
    assert spec.resources["train"].memory == 4 << 30
    assert spec.validate_.expectations[0].arguments() == {"column": "price", "min_value": 1, "max_value": 500}


def test_only_four_keys_are_needed() -> None:
    spec = loads(MINIMAL)
    assert spec.metric == "auc"
    assert spec.model_name == "small"
    assert spec.label == "y"
    assert spec.group is None
    ranking = load(FILE)
    assert ranking.group == "query_id"
    assert [name for name, column in ranking.columns.items() if column.is_feature] == [
        "item_id",
        "country",
        "price",
        "rating",
    ]


def test_a_stage_keeps_its_own_defaults_for_the_keys_that_are_left_out() -> None:
    spec = load(FILE)
    assert spec.stages["train"].timeout == 4 * 3600
    assert spec.stages["train"].grace == 120
    assert spec.stages["register"].retries == 5
    assert spec.resources["ingest"].cpus == 2


def test_the_output_of_explain_loads_to_the_same_pipeline() -> None:
    for text in (TEXT, MINIMAL, TEXT.replace("  drift: {against: champion, psi: 0.2}", "  drift: null")):
        spec = loads(text)
        again = loads(explain(spec))
        assert again.model_copy(update={"evaluate": spec.evaluate, "register_": spec.register_}) == spec


def test_a_spec_survives_json() -> None:
    spec = load(FILE)
    assert PipelineSpec.model_validate_json(spec.model_dump_json(by_alias=True)) == spec


def test_every_problem_is_reported_at_once_in_the_order_of_the_file() -> None:
    text = changed("window_days", "window_day").replace("role: time", "role: tme").replace("epochs: 3", "epochs: many")
    assert problems(text + "colour: blue\n") == [
        "p.yaml:8: source.window_day: unknown key; allowed: codes, csv, day_starts, keep_days, kind, missing_days, names, ready, timezone, uri, wait, window_days; "
        "did you mean window_days?",
        "p.yaml:11: columns.shown_at.role: 'tme' is not allowed; allowed: group, time, label, weight, numeric, "
        "categorical, list_weight, id, ignore; did you mean time?",
        "p.yaml:26: train.epochs: 'many' is the wrong type; allowed: a whole number",
        "p.yaml:36: colour: unknown key; allowed: alerts, columns, description, evaluate, gate, joins, name, owner, register, "
        "resources, schedule, source, stages, train, validate; did you mean columns?",
    ]


def test_misfits_are_reported_together_with_invalid_keys() -> None:
    text = (
        changed("  epochs: 3", "  epoch: 3").replace("metric: ndcg@10", "metric: rmse").replace("[country]", "[price]")
    )
    assert problems(text) == [
        "p.yaml:26: train.epoch: unknown key; allowed: accumulation, batch_size, checkpoint, curriculum, ema, epochs, evaluations, init, learning_rate, model, "
        "objective, optimizer, patience, precision, profile, recompute, refit, seed, shards, steps, tables, valid_days, watchdog, weight_decay; did you mean epochs?",
        "p.yaml:30: evaluate.metric: rmse does not measure a ranking model; allowed: ndcg@K, mrr@K, map@K, precision@K, recall@K",
        "p.yaml:30: evaluate.slices.0: price is a number, and its values are too many to be slices; to do: write "
        "{column: price, bins: 4}",
    ]


def test_all_problems_of_a_column_are_reported() -> None:
    text = changed(
        "{role: ignore, type: int64}",
        "{role: time, type: string, min: 3, max: 2, derived: true, in: [1, x, 2], transform: log1p}",
    )
    assert [line.partition(": columns.position")[2] for line in problems(text)] == [
        ": a time column cannot be string; allowed: date, timestamp",
        ": min and max need a number, not string; allowed: int64, float64",
        ": min 3 is above max 2",
        ": a derived column is a feature, not time; allowed: numeric, categorical",
        ": transform needs role numeric, not time",
        ": in: 1 is not a string",
        ": in: 2 is not a string",
        ".role: only one column may have role time; shown_at has it",
    ]


def test_no_problem_is_reported_that_another_correction_may_solve() -> None:
    """The label's role, the group's role, a bound, the objective, a slice's role, the days: each is invalid itself."""
    text = (
        changed("role: label", "role: lable")
        .replace("role: group", "role: grop")
        .replace("window_days: 30", "window_days: x")
    )
    text = text.replace("min: 0, max_null", "min: x, max_null").replace(
        "country:  {role: categorical", "country: {role: [x]"
    )
    text = text.replace("objective: ranking", "objective: rankin").replace("metric: ndcg@10", "metric: rmse")
    assert {line.split(": ")[1] for line in problems(text)} == {
        "source.window_days", "columns.query_id.role", "columns.price.min", "columns.country.role", "columns.clicked.role",
        "train.objective",
    }  # fmt: skip


@pytest.mark.parametrize(
    "wrong",
    ["columns: 3", "columns: {x: 3, y: {role: label}}", "source: 3", "train: {objective: 3}", "evaluate: {slices: [3, x]}",
     "validate: {expectations: [{type: x}, 3], volume: 3}", "evaluate: 3", "columns: {1x: {role: label, type: bool, min: 0}}",
     "resources: {train: 3}", "columns: {y: {role: label, type: !x int64}}"],
)  # fmt: skip
def test_an_invalid_key_does_not_hide_a_misfit(wrong: str) -> None:
    key = wrong.partition(":")[0]
    text = MINIMAL + "gate: {min_gain: x}\nevaluate: {metric: rmse, holdout_days: 40}\n"
    kept = [line for line in text.splitlines() if not line.startswith(f"{key}:")]
    if key == "columns":
        kept = [line for line in kept if not line.startswith("  ")]
    said = "\n".join(problems("\n".join([*kept, wrong])))
    assert f": {key}" in said
    assert "gate.min_gain: 'x' is not a share" in said
    if key not in {"evaluate", "train"}:
        assert "rmse does not measure a binary model" in said
    if key not in {"evaluate", "source"}:
        assert "window_days 30 leaves no day to train on; at least 42 are needed" in said


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("name: search-ranking\n", "name: ../../etc\n", "p.yaml:1: name: "),
        ("name: search-ranking\n", "", "p.yaml:1: name: is missing"),
        ('cron: "0 2 * * *"', "cron: daily", "p.yaml:4: schedule.cron: 'daily'"),
        ('"0 2 * * *"', '"60 2 * * *"', "p.yaml:4: schedule.cron: '60 2 * * *': minute 60 is not allowed; allowed: 0-59"),
        ("finish_by: 4h", "finish_by: 999999999d", "p.yaml:4: schedule.finish_by: '999999999d' is too long; allowed: up to 365d"),
        ("memory: 4g", "memory: 9999t", "'9999t' is too much; allowed: up to 1024t"),
        ("timezone: UTC", "timezone: Mars/Base", "p.yaml:4: schedule.timezone: 'Mars/Base' is not a time zone"),
        ("finish_by: 4h", "finish_by: 4", "p.yaml:4: schedule.finish_by: 4 is not a duration; write it like 20m"),
        ("finish_by: 4h", "finish_by: 0h", "p.yaml:4: schedule.finish_by: '0h' is zero"),
        ("kind: files ", "kind: fils ", "p.yaml:5: source: 'fils' is not allowed; allowed: files, sql, delta; did you"),
        ("  kind: files", "  #", "p.yaml:5: source: kind is missing; allowed: files, sql, delta"),
        ("date={date}", "date=today", "has no place for the day; put {date} into it"),
        ("window_days: 30", "window_days: 2", "p.yaml:8: source.window_days: window_days 2 leaves no day to train on; at least 3"),
        ("max_null: 1%", "max_null: 120%", "p.yaml:14: columns.price.max_null: '120%' is not between 0% and 100%"),
        ("max_null: 1%", "max_null: some", "'some' is not a share; write it like 20% or 0.2"),
        ("max_null: 1%", "max_null: []", "[] is not a share; write it like 20% or 0.2"),
        ("min: 0, max_null", "min: -2, max_null", "p.yaml:14: columns.price: transform log1p needs a min above -1"),
        (
            "min: 0, max_null",
            "on_breach: warn, min: 0, max_null",
            "p.yaml:14: columns.price: on_breach: warn does not go together with transform log1p, which needs the rules",
        ),
        (
            "owner: search-team",
            "owner: search-team\nresources: {evaluate: {tasks: 2}}",
            "resources.evaluate.tasks: evaluate has no days to share; allowed: 1",
        ),
        ("min: 0, max: 5", "on_breach: warn", "p.yaml:15: columns.rating: on_breach: warn is of the rules in, min, max"),
        ("min: 0, max: 5", "min: 7, max: 5", "p.yaml:15: columns.rating: min 7 is above max 5"),
        ("type: timestamp", "type: timestamp, min: 1", "p.yaml:11: columns.shown_at: min and max need a number"),
        ("type: timestamp", "type: int64", "p.yaml:11: columns.shown_at: a time column cannot be int64; allowed: date"),
        ("{role: ignore, type: int64}", "{role: id, type: int64, transform: log1p}", "transform needs role numeric, not id"),
        ("in: [DE, FR, US]", "in: [DE, 3]", "p.yaml:13: columns.country: in: 3 is not a string"),
        ("{role: ignore, type: int64}", "{role: id, type: int64, derived: true}", "a derived column is a feature, not id"),
        ("position: {role", "date: {role", "columns.date: the snapshot keeps the day under this name; rename the column"),
        ("in: [0, 1]", "in: [true, false]", "columns.clicked: in: True is not a int64"),
        ("role: label", "role: weight", "p.yaml:9: columns: exactly one column needs role label"),
        ("role: ignore", "role: label", "exactly one column needs role label, not 2 (position, clicked)"),
        ("{role: ignore, type: int64}", "{role: group, type: int64}", "p.yaml:16: columns.position.role: only one column"),
        ("query_id: {role: group", "query_id: {role: id", "p.yaml:24: train.objective: ranking needs a column with role"),
        ("hidden: [256, 128]", "hidden: [256, wide]", "train.model.hidden.1: 'wide' is the wrong type; allowed: a whole"),
        ("kind: dcn", "kind: model.py:Mine, colour: red", "train.model.colour: unknown key; allowed: cross_layers"),
        ('cron: "0 2 * * *"', "corn: x", "schedule.corn: unknown key; allowed: cron, finish_by, timezone; did you mean cron"),
        ("kind: dcn", "kind: dnn", "p.yaml:25: train.model.kind: 'dnn' is not a model; allowed: mlp, dcn, linear"),
        ("kind: dcn", "kind: evil.py:X", "'evil.py:X' is not a model"),
        ("batch_size: auto", "batch_size: 0", "p.yaml:27: train.batch_size: 0 is not a batch size; allowed: auto"),
        ("metric: ndcg@10", "metric: ndgc@10", "p.yaml:30: evaluate.metric: 'ndgc@10' is not a metric; allowed: accuracy"),
        ("metric: ndcg@10", "metric: rmse", "p.yaml:30: evaluate.metric: rmse does not measure a ranking model"),
        ("metric: ndcg@10", "metric: auc", "p.yaml:30: evaluate.metric: auc compares scores of different groups, and a ranking"),
        ("metric: ndcg@10", "metric: logloss", "p.yaml:30: evaluate.metric: logloss compares scores of different groups"),
        ("metric: ndcg@10", "metric: rmse", "rmse does not measure a ranking model; allowed: ndcg@K, mrr@K, map@K, precision@K, recall@K"),
        ("{gpus: 0", "{gpus: 3", "p.yaml:33: resources.train.gpus: 3 is not a power of two; allowed: 1, 2, 4, 8"),
        ("{gpus: 0", "{processes: 6", "p.yaml:33: resources.train.processes: 6 is not a power of two; allowed: 1, 2, 4, 8"),
        ("{gpus: 0", "{gpus: 4, processes: 2", "resources.train.processes: a training on GPUs has one process for each GPU; allowed: 1, 4"),
        ("{train: {gpus: 0", "{evaluate: {processes: 2", "resources.evaluate.processes: evaluate runs in one process; only train has"),
        ("batch_size: auto", "batch_size: auto\n  shards: 3", "p.yaml:28: train.shards: 3 is not a number of shards; allowed: auto, 1, 2, 4"),
        ("batch_size: auto", "batch_size: 4\n  shards: 8", "train.batch_size: a step of 4 rows has no row for some of 8 shards; allowed: 8 or more"),
        ("batch_size: auto", "batch_size: 4\n  accumulation: 8", "p.yaml:28: train.accumulation: 8 micro-batches of a step of 4 rows: some would have less than two; allowed: 1 to 2"),
        ("batch_size: auto", "batch_size: 64\n  shards: 8\n  accumulation: 8", "p.yaml:29: train.accumulation: 8 micro-batches of a step of 64 rows in 8 shards: some would have less than two; allowed: 1 to 4"),
        ("batch_size: auto", "learning_rate: 0", "p.yaml:27: train.learning_rate: 0 is not a learning rate; allowed: auto, or a number above 0 and up to 10"),
        ("batch_size: auto", "weight_decay: -1", "p.yaml:27: train.weight_decay: -1 is not a weight decay; allowed: auto, or a number from 0 up"),
        ("batch_size: auto", "optimizer: adam", "p.yaml:27: train.optimizer: 'adam' is not allowed; allowed: adamw, sgd; did you mean adamw?"),
        ("batch_size: auto", "batch_size: auto\n  accumulation: 65", "p.yaml:28: train.accumulation: 65 is not a number of micro-batches; allowed: auto, fastest, 1 to 64"),
        ("batch_size: auto", "batch_size: auto\n  precision: tf32", "p.yaml:28: train.precision: tf32 needs a GPU, and training has none; allowed: auto, fp32, bf16, fp16"),
        ("slices: [country]", "slices: [price]", "p.yaml:30: evaluate.slices.0: price is a number"),
        ("memory: 4g", "memory: lots", "p.yaml:33: resources.train.memory: 'lots' is not an amount of memory"),
        ("memory: 4g", "memory: 0g", "'0g' is zero"),
        ("{train: {gpus: 0", "{trian: {gpus: 0", "p.yaml:33: resources.trian: 'trian' is not allowed; allowed: ingest"),
        ("retries: 3", "retry: 3", "p.yaml:34: stages.train.retry: unknown key; allowed: grace, retries, retry_delay"),
        ("stages: {train:", "stages: [train] #", "p.yaml:34: stages: ['train'] is the wrong type; allowed: a mapping"),
        ("{train: {retries: 3, timeout: 4h}}", "{train: 3}", "p.yaml:34: stages.train: 3 is the wrong type; allowed: a mapp"),
        ("to: [mlops]", "to: [https://secret]", "p.yaml:35: alerts.to.0: 'https://secret' is not allowed; allowed: small letters, digits, - and _, a letter first"),
        ("type: expect_column", "type: drop_column", "validate.expectations.0.type"),
        ("promote: auto", "promote: yes", "p.yaml:32: register.promote: 'yes' is not allowed; allowed: auto, approve, nev"),
    ],
)  # fmt: skip
def test_a_problem_names_line_key_and_allowed_values(old: str, new: str, said: str) -> None:
    found = problems(changed(old, new))
    assert any(said in line for line in found), found


def test_processes_share_no_fewer_shards_than_there_are() -> None:
    few = changed("batch_size: auto", "batch_size: auto\n  shards: 2").replace("{gpus: 0", "{processes: 4")
    assert any(
        "train.shards: 4 processes cannot share 2 shards; allowed: auto, or 4 and more" in line
        for line in problems(few)
    )
    enough = loads(few.replace("shards: 2", "shards: 8"))
    assert (enough.resources["train"].ranks, enough.train.shards) == (4, 8)


def test_sharded_tables_need_a_column_that_has_one() -> None:
    sharded = changed("batch_size: auto", "batch_size: auto\n  tables: sharded")
    assert loads(sharded).train.tables == "sharded"
    none = sharded.replace("role: categorical", "role: ignore")
    said = "train.tables: sharded has no effect: no column has role categorical, so there is no table of vectors; allowed: whole"
    assert any(said in line for line in problems(none)), problems(none)
    assert "tables: 'split' is not allowed; allowed: whole, sharded" in " ".join(
        problems(sharded.replace("sharded", "split"))
    )


def test_what_a_file_may_no_longer_ask_for_still_reads_in_a_stored_document() -> None:
    stored = loads(changed("slices: [country]", "slices: []")).model_dump(mode="json", by_alias=True)
    stored["evaluate"]["metric"], stored["resources"]["train"]["gpus"] = "auc", 3
    read = PipelineSpec.model_validate_json(json.dumps(stored))
    assert (read.metric, read.resources["train"].gpus) == ("auc", 3)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("epochs: 3", 'epochs: "3"', "train.epochs: '3' is the wrong type; allowed: a whole number"),
        ("epochs: 3", "epochs: 3.0", "train.epochs: 3.0 is the wrong type; allowed: a whole number"),
        ("epochs: 3", "epochs: true", "train.epochs: True is the wrong type; allowed: a whole number"),
        ("window_days: 30", "window_days: 30.0", "source.window_days: 30.0 is the wrong type; allowed: a whole number"),
        ("gpus: 0", "gpus: true", "resources.train.gpus: True is the wrong type; allowed: a whole number"),
        ("cpus: 2", "cpus: true", "resources.train.cpus: True is the wrong type; allowed: a number"),
        ("cpus: 2", 'cpus: "2"', "resources.train.cpus: '2' is the wrong type; allowed: a number"),
        ("1.0e-3", "true", "train.learning_rate: True is not a learning rate; allowed: auto, or a number above 0"),
        ("1.0e-3", "'0.01'", "train.learning_rate: '0.01' is not a learning rate; allowed: auto, or a number above 0"),
        ("min: 0, max_null", "min: '0', max_null", "columns.price.min: '0' is the wrong type; allowed: a number"),
        ("max: 5", "max: true", "columns.rating.max: True is the wrong type; allowed: a number"),
        ("max: 5", "max: 5, derived: yes", "columns.rating.derived: 'yes' is the wrong type; allowed: true or false"),
        ("max: 5", "max: 5, derived: 1", "columns.rating.derived: 1 is the wrong type; allowed: true or false"),
        ("max_null: 1%", "max_null: '0.5'", "columns.price.max_null: '0.5' is not a share; write it like 20% or 0.2"),
        ("max_null: 1%", "max_null: true", "columns.price.max_null: True is not a share"),
        ("retries: 3", "retries: '3'", "stages.train.retries: '3' is the wrong type; allowed: a whole number"),
        ("psi: 0.2", "psi: '0.2'", "validate.drift.psi: '0.2' is the wrong type; allowed: a number"),
        ("description: Orders", "description: 3 #", "description: 3 is the wrong type; allowed: text"),
        ("hidden: [256, 128]", "hidden: [256, 1.0]", "train.model.hidden.1: 1.0 is the wrong type; allowed: a whole number"),
        ("batch_size: auto", "batch_size: 8.0", "train.batch_size: 8.0 is not a batch size"),
        ("cpus: 2", "cpus: 1e999", "resources.train.cpus: inf: input should be a finite number"),
        ("memory: 4g", "memory: 4", "resources.train.memory: 4 is not an amount of memory"),
    ],
)  # fmt: skip
def test_a_value_of_another_type_is_refused_and_not_converted(old: str, new: str, said: str) -> None:
    found = problems(changed(old, new))
    assert any(said in line for line in found), found


def test_whole_numbers_are_numbers_and_lists_are_tuples() -> None:
    spec = loads(changed("1.0e-3", "1").replace("max_null: 1%", "max_null: 0"))
    assert (spec.train.learning_rate, spec.columns["price"].max_null, spec.train.model.hidden) == (1.0, 0.0, (256, 128))


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (
            "in: [DE, FR, US]",
            "allowed: [DE]",
            "columns.country.allowed: unknown key; allowed: derived, dimension, in, ",
        ),
        ("validate:\n", "validate_:\n", "validate_: unknown key; allowed: alerts, columns"),
        ("register:", "register_:", "register_: unknown key; allowed: alerts, columns"),
    ],
)
def test_field_names_of_the_code_are_not_keys(old: str, new: str, said: str) -> None:
    found = problems(changed(old, new))
    assert any(said in line for line in found), found


def test_objectives_and_labels_have_to_fit() -> None:
    assert "a binary label is 0 or 1" in problems(MINIMAL.replace("type: int64", "type: float64"))[0]
    many = MINIMAL.replace("binary", "multiclass")
    assert "a multiclass label needs type int64 and its classes" in problems(many)[0]
    assert "classes must be 0, 1, 2" in problems(many.replace("type: int64", "type: int64, in: [1, 2]"))[0]
    assert loads(many.replace("type: int64", "type: int64, in: [0, 1, 2]")).metric == "accuracy"
    assert "at least one column needs role numeric" in problems(MINIMAL.replace("numeric", "id"))[0]
    no_choice = MINIMAL + "evaluate: {slices: [x]}\n"
    assert "write {column: x, bins: 4}" in problems(no_choice)[0]
    assert "none, as no column fits" in problems(MINIMAL + "evaluate: {slices: [nowhere]}\n")[0]


def test_scalars_are_those_of_yaml_1_2() -> None:
    text = changed("in: [DE, FR, US]", "in: [NO, on, 1:30, 2026-11-20]").replace("1.0e-3", "3e-4")
    spec = loads(text)
    assert spec.columns["country"].allowed == ("NO", "on", "1:30", "2026-11-20")
    assert spec.train.learning_rate == 3e-4


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "p.yaml:1: the file is empty"),
        ("just text", "p.yaml:1: must be a mapping"),
        ("a: [1, 2", "p.yaml:1:4: not valid YAML"),
        ("a: \x00", "p.yaml:1:4: not valid YAML"),
        ("a: !!python/object/apply:os.system [id]", "tag tag:yaml.org,2002:python/object/apply:os.system is not allowed"),
        ("a: !!python/name:os.system x", "is not allowed"),
        ("a: !mine {b: 1}", "tag !mine is not allowed"),
        ("a: !!binary aGk=", "is not allowed"),
        ("a: !!int x", "invalid literal"),
        ('a: "x\\0"', "p.yaml:1: a: has a control character"),
        ('a: "\\e[31m"', "p.yaml:1: a: has a control character"),
        ('a: "\\ud800"', "p.yaml:1:7: not valid YAML"),
        ("? [1]\n: 2", "a key must be plain text"),
        ("<<: {a: 1}", "p.yaml:1: <<: unknown key"),
        ("name: a\nname: b", "p.yaml:2: name: is a duplicate (first at line 1)"),
        ("a: &x [*x]", "unfolds too far"),
        ("x: &a [1,1,1,1,1,1,1,1,1]\n" + "".join(
            f"{chr(98 + i)}: &{chr(98 + i)} [{','.join(['*' + chr(97 + i)] * 9)}]\n" for i in range(8)
        ), "unfolds too far"),
        ("a: " + "x" * MAX_BYTES, "larger than 256 KiB"),
        ("a: " + "[" * 5000, "not valid YAML"),
    ],
)  # fmt: skip
def test_hostile_yaml_is_refused_in_one_line_each(text: str, said: str) -> None:
    found = problems(text)
    assert any(said in line for line in found), found[:3]
    assert all(len(line) < 400 for line in found)


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | st.text(), lambda inner: (
    st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(
        ["name", "source", "columns", "train", "kind", "uri", "role", "type", "validate", "stages", "objective", "x"]
    ), inner, max_size=6)
), max_leaves=30))  # fmt: skip
def test_any_text_gives_a_spec_or_problems(document: object) -> None:
    with contextlib.suppress(PipelineInvalid):
        assert isinstance(loads(yaml.safe_dump(document)), PipelineSpec)


def test_overrides_are_checked_like_the_file_and_their_problems_name_the_flag() -> None:
    spec = loads(TEXT, overrides={"train.epochs": 1, "gate.confidence": "90%", "train.model.dropout": 0.1})
    assert (spec.train.epochs, spec.gate.confidence, spec.train.model.dropout) == (1, 0.9, 0.1)
    assert loads(TEXT, overrides={"source.window_days": 30, "train.learning_rate": 1}).train.learning_rate == 1.0
    assert loads(TEXT, overrides={"resources.train.memory": "2g"}).resources["train"].memory == 2 << 30
    assert problems(TEXT, train__epochs="3")[0].startswith("--set train.epochs: train.epochs: '3' is the wrong type")
    assert loads(MINIMAL, overrides={"evaluate.metric": "logloss"}).metric == "logloss"
    assert problems(TEXT, train__epoch=1)[0].startswith("--set train.epoch: train.epoch: unknown key; allowed: acc")


def test_a_value_on_a_command_line_reads_as_in_a_file() -> None:
    assert [parse_scalar(text) for text in ("1", "3e-4", "auto", "NO", "[1, 2]")] == [1, 3e-4, "auto", "NO", [1, 2]]
    with pytest.raises(ValueError, match="not valid YAML"):
        parse_scalar("[")


def test_a_file_that_cannot_be_read_is_reported(tmp_path: Path) -> None:
    with pytest.raises(PipelineInvalid, match=r"no such file; allowed: a pipeline.yaml or its folder"):
        load(tmp_path)
    (tmp_path / "pipeline.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(PipelineInvalid, match="cannot be read"):
        load(tmp_path)


@pytest.mark.parametrize(
    ("name", "near"), [("Late Orders", "late-orders"), ("late--orders", "late-orders"), ("late.orders", "late-orders")]
)
def test_a_wrong_name_is_answered_in_words(name: str, near: str) -> None:
    assert problems(f'name: "{name}"\n' + TEXT.partition("\n")[2])[0] == (
        f"p.yaml:1: name: {name!r} is not allowed; allowed: small letters and digits, in words joined by a single - or _, "
        f"a letter first, as in late-orders; did you mean {near}?"
    )


def test_every_pattern_of_a_pipeline_file_has_words() -> None:
    def patterns(schema: object) -> set[str]:
        if isinstance(schema, list):
            return set().union(*map(patterns, schema))
        if not isinstance(schema, dict):
            return set()
        found = set().union(*(patterns(value) for value in schema.values()))
        found |= {schema["pattern"]} if isinstance(schema.get("pattern"), str) else set()
        return found | set(schema.get("patternProperties", ()))

    cron = PipelineSpec.model_json_schema()["$defs"]["Schedule"]["properties"]["cron"]["pattern"]  # for editors alone
    assert patterns(PipelineSpec.model_json_schema()) - {cron} == set(IN_WORDS)


def test_a_long_list_of_what_is_allowed_is_printed_once() -> None:
    first, second = problems(
        TEXT.replace("price:    {role: numeric,", "price:    {rol: 1, role: numeric,").replace(
            "rating:   {role: numeric,", "rating:   {rol: 1, role: numeric,"
        )
    )
    assert (
        "columns.price.rol: unknown key; allowed: derived, dimension, in, keep, make, max, max_length, max_null, min, on_breach, pool, role, share, statistics, transform, type, weights;"
        in first
    )
    assert "columns.rating.rol: unknown key; allowed: see columns.price.rol; did you mean role?" in second


@pytest.mark.parametrize(
    ("asked", "rates"),
    [
        ({}, (1e-3, 1e-2)),
        ({"train.optimizer": "sgd"}, (0.1, 1e-4)),
        ({"train.optimizer": "sgd", "train.learning_rate": 1}, (1.0, 1e-4)),
        ({"train.weight_decay": 0}, (1e-3, 0.0)),
    ],
)
def test_a_rate_and_a_decay_that_are_auto_are_those_of_the_optimizer(
    asked: dict[str, object], rates: tuple[float, float]
) -> None:
    assert loads(MINIMAL, "p.yaml", asked).train.rates == rates
