"""What a pipeline keeps beside its results: records of runs, marks, checkpoints, alerts and leases.

A change here violates the promise of the project when the record of a run goes that a ledger names, or a checkpoint
that a training under way may go on from.
"""

from dataclasses import dataclass
from itertools import groupby

from ratchet.collection.findings import Findings, Wholes
from ratchet.collection.kept_runs import DAY_NS, Runs
from ratchet.contracts import paths
from ratchet.contracts.collection import Policy
from ratchet.contracts.fingerprint import digest_of
from ratchet.contracts.stages import STAGES, TRAININGS
from ratchet.store.base import Entry, Store
from ratchet.store.checkpoint_folder import ORIGIN

_RUNS, _LOGS, _NIGHTS, _BUILDS = "records of runs", "logs of runs", "marks of dates", "marks of builds"


@dataclass(frozen=True, kw_only=True)
class Records:
    """Adds them to `findings`. now_ns: by the store's clock."""

    store: Store
    pipeline: str
    policy: Policy
    now_ns: int
    findings: Findings

    def age(self, entry: Entry) -> float:
        """Days since it was written."""
        return (self.now_ns - entry.modified_ns) / DAY_NS

    def is_young(self, entry: Entry) -> bool:
        """Whether it is within the grace."""
        return self.age(entry) <= self.policy.grace

    @property
    def young(self) -> str:
        """Why what is young stays."""
        return f"younger than {self.policy.grace} days"

    def of_runs(self, runs: Runs, in_ledger: set[str]) -> set[str]:
        """Records of runs, of which logs go with the results, and of their dates. Returns the runs that stay."""
        policy, stay = self.policy, set()
        for run in runs.planned:
            why = run.why or ("the ledger names it" if run.run_id in in_ledger else "")
            if not why and self.now_ns - run.newest_ns < policy.runs * DAY_NS:
                why = f"a run of the last {policy.runs} days"
            if why:
                stay.add(run.run_id)
                self.findings.named.bundles.add(run.plan.bundle.key)
                self.findings.named.releases.add(paths.release(digest_of(run.plan.code)))
                self.findings.named.chains.add(run.plan.chain)
                self.findings.keep(_RUNS, why, run.records)
            else:
                plan, *others = run.records
                gone = f"the run is older than {policy.runs} days"
                self.findings.rest.append(Wholes(_RUNS, gone, plan, (*others, *run.logs)))
            (self.findings.named.images if run.why else self.findings.named.gone_images).add(run.plan.pins.image)
            if run.why:
                self.findings.keep(_LOGS, why, run.logs)
            elif why and run.logs:
                gone = f"the run is older than {policy.results} days"
                self.findings.rest.append(Wholes(_LOGS, gone, None, run.logs))
        for run_id, files in runs.unplanned.items():
            why, whole = "the ledger names it" if run_id in in_ledger else "", files
            if not why and any(map(self.is_young, files)):
                why = self.young
            if not why and any(_is_of_rebuild(one) and self.age(one) < policy.runs for one in files):
                why = f"a rebuild of the last {policy.runs} days"
                whole = self._without_old_logs(files)
            if why:
                stay.add(run_id)
                self.findings.keep(_RUNS, why, whole)
            else:
                self.findings.rest.append(Wholes(_RUNS, "the run has no plan", None, files))
        self._of_dates(stay)
        self.findings.named.runs |= stay
        return stay

    def _without_old_logs(self, files: tuple[Entry, ...]) -> tuple[Entry, ...]:
        """The files of a rebuild that stay: its logs go with the results, as those of a night."""
        if any(self.age(one) < self.policy.results for one in files):
            return files
        logs = tuple(one for one in files if one.key.endswith(".log"))
        if logs:
            gone = f"the rebuild is older than {self.policy.results} days"
            self.findings.rest.append(Wholes(_LOGS, gone, None, logs))
        return tuple(one for one in files if one not in logs)

    def _of_dates(self, stay: set[str]) -> None:
        """That of the newest date stays: a change of production by hand is in office from that date on.

        Without a run there is no production.
        """
        marks = list(self.store.list(paths.nights(self.pipeline)))
        newest = max((paths.night_date(entry.key) for entry in marks), default=None) if stay else None
        for entry in marks:
            if paths.last(entry.key) in stay or self.is_young(entry) or paths.night_date(entry.key) == newest:
                self.findings.keep(_NIGHTS, "its run stays, or it is the newest date", [entry])
            else:
                self.findings.rest.append(Wholes(_NIGHTS, "its run is gone", entry, ()))

    def of_checkpoints(self, working: frozenset[str]) -> None:
        """working: stages that run now, and may read any checkpoint. One that begins later writes its origin again."""
        for stage in sorted(TRAININGS):
            listed = self.store.list(paths.checkpoints(self.pipeline, stage))
            kind = f"checkpoints of {stage}"
            for _, group in groupby(listed, key=lambda entry: entry.key.rpartition("/")[0]):
                files = sorted(group, key=lambda entry: not entry.key.endswith(".json"))  # documents first
                if running := ", ".join(sorted(TRAININGS & working)):
                    self.findings.keep(kind, f"{running} runs now", files)
                elif any(map(self.is_young, files)):
                    self.findings.keep(kind, self.young, files)
                else:
                    gone = f"its training has not gone on for {self.policy.grace} days"
                    origin = next((entry for entry in files if paths.last(entry.key) == ORIGIN), None)
                    others = tuple(entry for entry in files if entry is not origin)
                    self.findings.checkpoints.append(Wholes(kind, gone, origin, others))

    def of_builds(self, published: set[str]) -> None:
        """published: the prefixes of results that stay. The newest mark of a stage says what has changed since."""
        for stage in STAGES:
            marks = sorted(self.store.list(paths.builds(self.pipeline, stage)), key=lambda entry: entry.modified_ns)
            for entry in marks:
                prefix = paths.published(self.pipeline, stage, paths.last(entry.key))
                if prefix in published or self.is_young(entry) or entry is marks[-1]:
                    self.findings.keep(_BUILDS, "its result stays, or it is the newest", [entry])
                else:
                    self.findings.rest.append(Wholes(_BUILDS, "its result is gone", entry, ()))

    def of_alerts(self, stay: set[str]) -> None:
        """stay: runs that stay. Others are about no run, as those of a missing night: these are not sent again."""
        days, listed = self.policy.runs, self.store.list(paths.alerts(self.pipeline))
        for entry in listed:
            if entry.key.split("/")[2] in stay or self.age(entry) <= days:
                self.findings.keep("alerts", f"its run stays, or it is of the last {days} days", [entry])
            else:
                self.findings.rest.append(Wholes("alerts", f"older than {days} days", None, (entry,)))

    def of_leases(self, leases: tuple[Entry, ...]) -> None:
        """A lease is written every few seconds while its holder lives."""
        for entry in leases:
            if self.is_young(entry):
                self.findings.keep("leases", self.young, [entry])
            else:
                self.findings.rest.append(Wholes("leases", "its holder has died", entry, ()))


def _is_of_rebuild(entry: Entry) -> bool:
    """Whether it is what a rebuild of a version has said: its run has no plan."""
    return paths.last(entry.key).startswith(f"{paths.REPRODUCTION}-")
