"""Checkpoints of a training, written so that a crash at any moment leaves a whole one.

A checkpoint is a JSON document and files of tensors (safetensors) of bounded size. The document holds the rest of the
state and the sha256 of everything. It is written last: without it the checkpoint does not exist. Nothing is pickled,
and no file is written twice. The best weights have files of their own: each is written in two copies, and the
checkpoints that follow use one and the other in turn.

A change here violates the promise of the project when a training resumes from a damaged checkpoint, or when the last
good one can be lost while another is written.

Where tables are sharded by row, each rank writes and reads the files of its rows. The first one writes the document
when all files are durable, and all begin with the newest checkpoint that every one of them can read.
"""

import json
import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from time import perf_counter
from typing import Any, TypeVar

from torch import Tensor

from ratchet.contracts.errors import NoAnswer, Unavailable
from tasks.train.checkpoint_documents import FILE, OtherRelease, document, files_of, name_of, read_document, steps_of
from tasks.train.checkpoint_files import DAMAGE, CheckpointFolder, ReadFolder, Stored, load, store
from tasks.train.parts import PART_BYTES
from tasks.train.ranks import Ranks
from tasks.train.staging import Staging
from tasks.train.stripes import Reading, Stripe

BEST = "best."
"""The names of the best weights begin with it."""
_COPIES = 2
"""Of the best weights: so one that is damaged costs the newest checkpoint, and not the one before it."""
_LISTINGS = 3
T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Checkpoint:
    """A saved state.

    step: completed steps of all epochs. state: what `TrainState.state_dict` returned, that is tensors and JSON values.
    moving: the names of tensors that may change before the next update of the weights. is_own: whether this training
    wrote it, not another that computes the same. rows: of whole tables, by the names of the tensors that have the rows
    of this rank alone.
    """

    step: int
    state: Mapping[str, Any]
    moving: AbstractSet[str] = frozenset()
    is_own: bool = True
    rows: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class _Read:
    """What a rank has read. digest: of the document. best: None where the next save cannot use its files again."""

    checkpoint: Checkpoint
    digest: str
    best: Stored | None


class Checkpointer:
    """Saves in the background, one checkpoint at a time, and keeps the newest `keep`.

    A save that begins while the one before is being written waits for it: so a training loses one interval at most. A
    save that fails is logged through `warn`, and training continues. part_bytes: of a file of tensors, at most. stalls:
    seconds that the loop waited for each save. durations: seconds from the start of each save until it was durable.
    failures: saves that failed. waits: saves that waited for the one before. newest_step: of the newest checkpoint that
    this process has read or made durable.
    """

    def __init__(
        self,
        folder: CheckpointFolder,
        *,
        keep: int,
        warn: Callable[[str], None],
        part_bytes: int = PART_BYTES,
    ) -> None:
        self._folder = folder
        self._keep = keep
        self._warn = warn
        self._part_bytes = part_bytes
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="checkpoint")
        self._pending: Future[None] | None = None
        self._staging = Staging()
        self._ranks = self._behind = Ranks()
        self._token = secrets.token_hex(4)
        self._best = list[Stored]()
        self._files: dict[int, frozenset[str]] = {}
        self._unreadable: set[int] = set()
        self.stalls: list[float] = []
        self.durations: list[float] = []
        self.failures = self.waits = 0
        self.newest_step: int | None = None

    def share(self, ranks: Ranks) -> None:
        """From here on all ranks save and read together, each its rows of sharded tables. All ranks call it."""
        self._ranks, self._behind = ranks, ranks.apart()

    def save(self, checkpoint: Checkpoint) -> None:
        """Copy and write the state while training continues. Call `wait_for_copy` before its weights change."""
        begin = perf_counter()
        self.waits += self._pending is not None and not self._pending.done()
        self.wait()
        tensors = {name: value for name, value in checkpoint.state.items() if isinstance(value, Tensor)}
        progress = json.dumps({name: value for name, value in checkpoint.state.items() if name not in tensors})
        if not self._ranks.is_first:
            tensors = {name: value for name, value in tensors.items() if name in checkpoint.rows}
        best = {name: tensors.pop(name) for name in list(tensors) if name.startswith(BEST)}
        self._staging.begin(tensors, moving=checkpoint.moving)
        self._pending = self._pool.submit(self._write, checkpoint.step, best, progress, checkpoint.rows, begin)
        self.stalls.append(perf_counter() - begin)

    @property
    def is_copying(self) -> bool:
        """Whether the next update of the weights has to wait for the copy of the last save."""
        return self._pending is not None and self._staging.is_due

    def wait_for_copy(self) -> None:
        """Before the weights change: let the copy of the last save end."""
        if self.is_copying:
            begin = perf_counter()
            self._staging.wait()
            self.stalls[-1] += perf_counter() - begin

    def wait(self) -> BaseException | None:
        """Wait for the save in progress. Returns its error, which is logged, not raised; None if it is durable."""
        pending, self._pending = self._pending, None
        error = None if pending is None else pending.exception()
        if error is not None:
            self.failures += 1
            self._warn(f"a checkpoint could not be saved; training continues: {error}")
        return error

    def close(self) -> BaseException | None:
        """Finish the save in progress and end the background thread. Returns the error of that save, if it failed."""
        error = self.wait()
        self._pool.shutdown()
        self._staging, self._best = Staging(), []  # their memory is for others now
        return error

    def newest(self, is_sharded: Callable[[str], bool] = lambda _name: False) -> Checkpoint | None:
        """The newest whole checkpoint, of this training or another that computes the same. Damaged ones are skipped.

        is_sharded: whether a tensor of the state has the rows of this rank alone; ranks that are not the first read
        those and nothing else. Of several ranks all return the same checkpoint.
        """
        for _ in range(_LISTINGS):  # another training may replace its checkpoints meanwhile
            replaced = False
            folders = [self._folder, *self._folder.others()]
            listed = self._ranks.broadcast({"found": self._newest_first(folders)}) or {}
            for step, is_own, number in listed["found"]:
                made, said = None, dict[str, object]()
                try:
                    made = self._read(folders[number : number + 1], step, is_sharded)
                    said["digest"] = made.digest
                except DAMAGE as error:
                    gone = isinstance(error, FileNotFoundError) and not is_own
                    other = "of another release" if isinstance(error, OtherRelease) else "damaged"
                    said |= {"why": f"{'gone' if gone else other} ({error})", "gone": gone}
                found = self._ranks.gather(said)
                if made is not None and all(each == said for each in found):
                    self.newest_step = step
                    self._best = [made.best] if is_own and made.best else []
                    return replace(made.checkpoint, is_own=is_own)
                replaced = replaced or any(each.get("gone") for each in found)
                why = next((each["why"] for each in found if "why" in each), "not the same for all processes")
                self._skip(step, why, is_own=is_own)
            if not replaced:
                break
        return None

    def _newest_first(self, folders: Sequence[ReadFolder]) -> list[tuple[int, bool, int]]:
        """(step, whether it is this training's own, number of its folder) of each checkpoint, own ones first."""
        found = [
            (step, number == 0, number) for number, folder in enumerate(folders) for step in steps_of(folder.names())
        ]
        return sorted(found, key=lambda each: each[:2], reverse=True)

    def _read(self, folders: Sequence[ReadFolder], step: int, is_sharded: Callable[[str], bool]) -> _Read:
        """A checkpoint of a folder; none if this rank does not see the folder. Raises one of DAMAGE."""
        if not folders:
            raise FileNotFoundError(name_of(step))
        (folder,) = folders
        content, digest = read_document(folder, step)
        of_ranks = [content, *content.get("ranks", [])]
        own = self._stripe
        reading = Reading(own=own, is_sharded=is_sharded, alone=not self._ranks.is_first, rows=content.get("rows", {}))
        needed = [
            each
            for number, each in enumerate(of_ranks)
            if own.meets(Stripe(len(of_ranks), number)) or (number == 0 and self._ranks.is_first)
        ]
        state, best = (load(folder, [each[name] for each in needed], reading) for name in ("state", "best"))
        checkpoint = Checkpoint(step=step, state={**content["progress"], **state, **best})
        if len(of_ranks) != self._ranks.size:
            return _Read(checkpoint=checkpoint, digest=digest, best=None)
        files = of_ranks[self._ranks.rank]["best"]
        return _Read(checkpoint=checkpoint, digest=digest, best=Stored(tensors=best, **files))

    @property
    def _stripe(self) -> Stripe:
        """The rows of sharded tables that this rank has."""
        return Stripe(self._ranks.size, self._ranks.rank)

    def _skip(self, step: int, state: str, *, is_own: bool) -> None:
        if is_own:
            self._unreadable.add(step)
        self._warn(f"the checkpoint of step {step} is {state}; training uses the one before it")

    def _write(
        self, step: int, best: Mapping[str, Tensor], progress: str, rows: Mapping[str, int], begin: float
    ) -> None:
        state, copies = Stored(), list[Stored]()

        def write() -> dict[str, Any]:
            nonlocal state, copies
            state = self._store(f"step-{step:010d}", self._staging.finish(), rows)
            copies = [copy for copy in self._best if copy.holds(best)]
            if len(copies) < min(self._keep, _COPIES):
                with self._staging.beside():
                    copies.append(self._store(f"best-{step:010d}", best, rows))
            else:
                copies.append(copies.pop(0))
            self._staging.check()
            return {"state": state.document, "best": copies[-1].document}

        def finish() -> None:
            if not self._ranks.is_first:
                return
            first, *others = written
            content = {"step": step, "progress": json.loads(progress), **first}
            if others:
                content |= {"ranks": others, "rows": dict(rows)}
            self._folder.put(name_of(step), document(content))
            self._files[step] = files_of(content)
            self._remove_old(step)

        written = self._on_all(write)
        self._on_all(finish)
        self._best = copies  # not before: a copy that no document names is removed
        self.newest_step = step
        self.durations.append(perf_counter() - begin)

    def _on_all(self, act: Callable[[], T]) -> list[T]:
        """What `act` returns on each rank. Raises its error; for another rank's NoAnswer, OSError or RuntimeError."""
        try:
            value = act()
        except Exception as error:
            passes, away = isinstance(error, OSError | Unavailable), isinstance(error, NoAnswer)
            self._behind.gather({"error": f"{type(error).__name__}: {error}", "passes": passes, "away": away})
            raise
        found = self._behind.gather({"value": value})
        for rank, each in enumerate(found):
            if "error" in each:
                kind = NoAnswer if each["away"] else OSError if each["passes"] else RuntimeError
                raise kind(f"process {rank} of {len(found)} could not save its part: {each['error']}")
        return [each["value"] for each in found]

    def _store(self, name: str, tensors: Mapping[str, Tensor], rows: Mapping[str, int]) -> Stored:
        """Write tensors; those that have rows of this rank alone under the name of its stripe."""
        named = {self._stripe.named(key) if key in rows else key: tensor for key, tensor in tensors.items()}
        stored = store(self._folder, name, named, writer=self._token, most=self._part_bytes)
        return replace(stored, tensors=tensors)

    def _remove_old(self, step: int) -> None:
        """Keep the newest ones that can be read, with their files, and remove the rest, also that of crashed saves."""
        self._unreadable.discard(step)
        try:
            names = {name for name in self._folder.names() if FILE.match(name)}
            kept = self._kept(names)
            for name in sorted(names - kept, key=lambda name: (not name.endswith(".json"), name)):  # documents first
                self._folder.remove(name)
        except Exception as error:  # noqa: BLE001 - whatever it is, the state of this step is saved
            self._warn(f"old checkpoints could not be removed, and use up the store: {error}")

    def _kept(self, names: Iterable[str]) -> set[str]:
        """The names of the files of the newest checkpoints that can be read."""
        known, self._files = self._files, {}
        for step in sorted(steps_of(names), reverse=True):
            if step not in self._unreadable and len(self._files) < self._keep:
                try:
                    self._files[step] = known.get(step) or files_of(read_document(self._folder, step)[0])
                except DAMAGE:
                    self._unreadable.add(step)
        return set[str]().union(*self._files.values())
