"""The verbs that change production, as DAGs: each with a form, and by a person whom Airflow names. See docs/adr/027.

A change here violates the promise of the project when production is changed by a run that nobody triggered, or when a
task that is tried again makes its change a second time.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk import DAG, BaseOperator, Param

from ratchet.contracts.errors import ConfigurationError, RatchetError
from ratchet.contracts.gate import NAME
from ratchet_airflow import settings
from ratchet_airflow.person import person
from ratchet_airflow.retries import of_a_form

if TYPE_CHECKING:
    from ratchet.production.by_hand import Done
    from ratchet.store.base import Store
    from ratchet.store.ledger import Record

TAG = "ratchet-production"
"""Of these DAGs. They do not have the tag of pipelines, whose runs the watch scans for failures."""
CHANGES = ("rollback", "hold", "release", "promote")
_LOOKS = ("history", "doctor")
_WEIGHT = 10_000
"""Before every stage, wherever a slot becomes free. No pool of stages is used, so that a full one stops nothing."""
_BEFORE = "ratchet_before"
_SECOND = "second_person"
"""The task that asks a second person, where a promotion needs one."""


@dataclass(frozen=True, kw_only=True)
class Verb:
    """version: whether the form has one: `required`, `optional`, or empty. says: what it does, in Markdown."""

    name: str
    version: str
    says: str

    @property
    def dag_id(self) -> str:
        """The name of its DAG."""
        return f"ratchet_{self.name}"


VERBS = (
    Verb(
        name="rollback",
        version="optional",
        says="Puts an earlier champion back into production: the named version, or the last different one "
        "that the registry has. What it replaces is banned until it is released.",
    ),
    Verb(name="hold", version="", says="Stops every promotion until it is released. Runs train and judge as before."),
    Verb(
        name="release",
        version="optional",
        says="Ends a hold; with a version, ends the ban on that version instead. It promotes nothing.",
    ),
    Verb(
        name="promote",
        version="required",
        says="Puts a registered version into production, whatever a verdict says of it. Its files are loaded first. "
        "Where `register.approvals` of its pipeline is 2, a second person is asked.",
    ),
    Verb(name="history", version="", says="Prints every change of production into the log, with who and why."),
    Verb(name="doctor", version="", says="Says whether production is well, and repairs what is safe to repair."),
)


class ProductionOperator(BaseOperator):
    """Carries out one verb. Its value is what it says, as text. `done` is the change, for the callbacks after it."""

    ui_color = "#fff3e0"

    def __init__(self, *, verb: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.verb = verb
        self.record: Record | None = None

    def execute(self, context: Mapping[str, Any]) -> str:
        """Raises ConfigurationError where nobody, or somebody who may not, triggered the run."""
        from ratchet.store.opening import open_store

        here, asked = settings.read(), context["params"]
        store, model = open_store(here.store), str(asked["model"])
        if self.verb in _LOOKS:
            lines = _look(self.verb, store, here.tracking, model)
        else:
            lines = self._change(context, store, here.tracking, model)
        for line in lines:
            self.log.info("%s", line)
        return "\n".join(lines)

    def _change(self, context: Mapping[str, Any], store: "Store", tracking: str | None, model: str) -> list[str]:
        from ratchet.production.by_hand import carry_out
        from ratchet.runs.run_index import note_production

        asked = context["params"]
        by, because = person(context), str(asked.get("because") or "")
        version = str(asked.get("version") or "").strip() or None
        if not because.strip():
            raise ConfigurationError("because is empty", remedy="say why; the ledger keeps it")
        made = self._made(context, store, model, by=by, because=because)
        act = _action(self.verb, store, tracking, model, version, by, because, _second(context))
        done = carry_out(store, tracking, model, act if made is None else lambda: made)
        self.record = done.record
        note_production(store, done.record)
        return describe(done)

    def _made(
        self, context: Mapping[str, Any], store: "Store", model: str, *, by: str, because: str
    ) -> "Record | None":
        """What an earlier try of this task has recorded before it was killed; None if nothing."""
        from ratchet.store.ledger import records

        states, history = context.get("task_state_store"), records(store, model)
        if states is None:
            return None
        before = states.get(_BEFORE)
        if before is None:
            states.set(_BEFORE, len(history))
            return None
        wanted = (self.verb, by, because)
        later = (one for one in history[int(before) :] if one.by_hand)
        return next((one for one in later if (one.action, one.started_by, one.reason) == wanted), None)


def describe(done: "Done") -> list[str]:
    """What changed, and what became of the alias: a line each."""
    from ratchet.production.reconcile import sentences
    from ratchet.production.standing import held

    record, before, found = done.record, done.before, done.reconciled
    lines = [f"record {record.number} of the ledger of {record.model}: {record.action} by {record.started_by}"]
    if record.moves_production:
        old = f"version {before.version}" if before and before.number != record.number else "see the history"
        lines.append(f"production: {old} -> version {record.version}")
    if record.holds:
        lines.append(f"the ledger was lost, with the holds and bans that it may have had: {held(record)}")
    lines += [f"version {ban.version} is banned until it is released" for ban in record.bans]
    lines += sentences(record.model, found)
    if found.unchecked:
        lines.append("the record stays; the alias follows with the next run, or with ratchet_doctor")
    return lines


def build(verb: Verb, callbacks: Mapping[str, Any] | None = None) -> DAG:
    """The DAG of a verb. It is active from the start, and runs beside every other DAG."""
    dag = DAG(
        dag_id=verb.dag_id,
        description=verb.says.partition(". ")[0],
        doc_md=verb.says,
        schedule=None,
        catchup=False,
        is_paused_upon_creation=False,
        dagrun_timeout=timedelta(days=2),
        tags=[TAG],
        params=form(verb),
    )
    handling: dict[str, Any] = {
        **of_a_form(),
        "priority_weight": _WEIGHT,
        "weight_rule": "absolute",
    }
    task = ProductionOperator(
        task_id=verb.name,
        verb=verb.name,
        execution_timeout=timedelta(minutes=15),
        **handling,
        **(callbacks or {}),
    )
    dag.add_task(task)
    if verb.name == "promote":
        from ratchet_airflow.second_person import SecondPersonOperator

        asking = SecondPersonOperator(task_id=_SECOND, **handling)
        dag.add_task(asking)
        asking >> task
    return dag


def form(verb: Verb) -> dict[str, Param]:
    """What a person is asked for."""
    fields = {
        "model": Param(
            None, type="string", pattern=NAME, title="Model", description_md="The registered model: `register.model`."
        )
    }
    if verb.version:
        required = verb.version == "required"
        fields["version"] = Param(
            None,
            type="string" if required else ["null", "string"],
            pattern=r"^[1-9][0-9]*$",
            title="Version",
            description_md="A version of the registry, such as `3`." + ("" if required else " It may be empty."),
        )
    if verb.name in CHANGES:
        fields["because"] = Param(
            None,
            type="string",
            pattern=r"\S",
            maxLength=2000,
            title="Because",
            description_md="Why. The ledger keeps it, with your name.",
        )
    return fields


def _action(
    verb: str,
    store: "Store",
    tracking: str | None,
    model: str,
    number: str | None,
    by: str,
    because: str,
    second: str | None,
) -> "Callable[[], Record]":
    from ratchet.production.hold import hold
    from ratchet.production.promote import promote
    from ratchet.production.release import release
    from ratchet.production.rollback import rollback

    actions: dict[str, Callable[[], Record]] = {
        "rollback": lambda: rollback(store, model, version=number, by=by, because=because, tracking_uri=tracking),
        "hold": lambda: hold(store, model, by=by, because=because),
        "release": lambda: release(store, model, version=number, by=by, because=because),
        "promote": lambda: promote(store, tracking, model, str(number), by=by, because=because, approved_by=second),
    }
    return actions[verb]


def _second(context: Mapping[str, Any]) -> str | None:
    """The second person, as the task before has found them."""
    task: Any = context.get("ti")
    return (task.xcom_pull(task_ids=_SECOND) or None) if hasattr(task, "xcom_pull") else None


def _look(verb: str, store: "Store", tracking: str | None, model: str) -> list[str]:
    if verb == "history":
        from ratchet.cli.history import table
        from ratchet.production.history import history

        return list(table(history(store, model)))
    from ratchet.production.diagnosis import diagnose

    try:
        found = diagnose(store, tracking, model)
    except ImportError as error:
        return [*_alias_only(store, tracking, model), f"the files were not checked: this Airflow has no {error.name}"]
    lines = [f"{'ok' if one.well else 'unchecked' if one.well is None else 'WRONG'}: {one.text}" for one in found]
    if not all(one.well for one in found):
        raise RatchetError("\n".join(lines), remedy="see docs/rollback.md")
    return lines


def _alias_only(store: "Store", tracking: str | None, model: str) -> list[str]:
    from ratchet.production.reconcile import reconcile, sentences

    found = reconcile(store, tracking, model)
    return [*sentences(model, found)] or [f"the alias of {model} follows the ledger"]
