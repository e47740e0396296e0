"""The processes of one training, its ranks: what they add up, and what the first one shares with all.

Sums are taken in the order of a binary tree over the ranks, so that 1, 2, 4 and more ranks get the same bits on a CPU.

A change here violates the promise of the project when two ranks get different bits of one sum, or when a rank that has
ended leaves the others waiting for ever.
"""

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import torch
from torch import Tensor, distributed, nn

from ratchet.runtime.user_code import lacks_memory
from tasks.train.heartbeat import Heartbeat

_NEVER = timedelta(days=30)
"""How long a rank waits for another one: the watchdog is sooner. torch's own limit is half an hour."""


class RankLost(Exception):
    """Another rank of this training has ended, or the connection to it."""


class RankDone(Exception):
    """A rank that is not the first has done its part: the first one saves the model."""


class Ranks:
    """This process as one of `size` ranks, from 0; by itself it is the only one. heartbeat: of this rank.

    of_host: the ranks that share this host, as ranks of their own; this process alone until it has joined others.
    """

    of_host: "Ranks"

    def __init__(
        self,
        *,
        rank: int = 0,
        size: int = 1,
        heartbeat: Heartbeat | None = None,
        group: distributed.ProcessGroup | None = None,
    ) -> None:
        """group: torch's for these ranks, if they are not all."""
        self.rank, self.size, self._group = rank, size, group
        self.heartbeat = heartbeat or Heartbeat()
        self.of_host = self

    @classmethod
    @contextmanager
    def join(cls, heartbeat: Heartbeat, *, device: torch.device) -> Iterator["Ranks"]:
        """Join the others, which torchrun's environment variables name; leave them at the end. Raises RankLost."""
        backend = "cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo"
        made = cls(rank=int(os.environ["RANK"]), size=int(os.environ["WORLD_SIZE"]), heartbeat=heartbeat)
        with made._exchange():
            distributed.init_process_group(backend, timeout=_NEVER)
            made.of_host = made._on_host(int(os.environ["LOCAL_WORLD_SIZE"]))
        try:
            yield made
        finally:
            distributed.destroy_process_group()

    def _on_host(self, count: int) -> "Ranks":
        """The ranks of this host. count: of each host; their numbers follow each other, as those of torchrun do."""
        if count == self.size:
            return self
        hosts = range(0, self.size, count)
        groups = [distributed.new_group([*range(first, first + count)], timeout=_NEVER) for first in hosts]
        group = groups[self.rank // count]
        return Ranks(rank=self.rank % count, size=count, heartbeat=self.heartbeat, group=group)

    @property
    def is_first(self) -> bool:
        """Whether this rank logs, saves and decides; of the ranks of a host, whether it reads the rows."""
        return self.rank == 0

    def leave_if_not_first(self) -> None:
        """Raises RankDone on every rank but the first."""
        if not self.is_first:
            raise RankDone

    def sum(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        """The sum over all ranks of each tensor, dense or sparse. Raises RankLost."""
        if self.size == 1:
            return list(tensors)
        dense = [tensor for tensor in tensors if not tensor.is_sparse]
        sums: dict[int, Tensor] = {}
        for kind in sorted({tensor.dtype for tensor in dense}, key=str):  # the same order on all ranks
            some = [tensor for tensor in dense if tensor.dtype == kind]
            flat = torch.cat([tensor.reshape(-1) for tensor in some])
            with self._exchange():
                self._add_others(flat)
            parts = torch.split(flat, [tensor.numel() for tensor in some])
            sums.update({id(one): part.view_as(one) for one, part in zip(some, parts, strict=True)})
        for tensor in tensors:
            if tensor.is_sparse:
                with self._exchange():
                    sums[id(tensor)] = self._sum_sparse(tensor)
        return [sums[id(tensor)] for tensor in tensors]

    def broadcast(self, values: Mapping[str, Any] | None) -> dict[str, Any] | None:
        """What the first rank gives: tensors and JSON values, or None. What the others give does not matter.

        Tensors are in the host's memory.
        """
        if self.size == 1:
            return None if values is None else dict(values)
        given = (values or {}) if self.is_first else {}
        tensors = {name: value.cpu().contiguous() for name, value in given.items() if isinstance(value, Tensor)}
        head = {
            "none": values is None,
            "values": {name: value for name, value in given.items() if name not in tensors},
            "tensors": {name: [str(one.dtype).removeprefix("torch."), *one.shape] for name, one in tensors.items()},
        }
        head = json.loads(self._broadcast_bytes(json.dumps(head).encode()))
        for name, (kind, *shape) in head["tensors"].items():
            one = tensors.get(name, torch.empty(shape, dtype=getattr(torch, kind)))
            with self._exchange():
                distributed.broadcast(
                    one.reshape(-1).view(torch.uint8), group=self._group, group_src=0
                )  # gloo does not know every type
            tensors[name] = one
        return None if head["none"] else {**head["values"], **tensors}

    def share_weights(self, network: nn.Module, but: AbstractSet[int] = frozenset()) -> None:
        """Begin with the weights of the first rank: code of a pipeline may have drawn others in each process.

        but: the ids of parameters of which each rank has rows of its own.
        """
        if self.size > 1:
            state = {name: each for name, each in network.state_dict(keep_vars=True).items() if id(each) not in but}
            shared = self.broadcast({name: each.detach() for name, each in state.items()})
            network.load_state_dict({**network.state_dict(), **(shared or {})})

    def exchange(self, parts: Sequence[Tensor], counts: Sequence[int] | None = None) -> list[Tensor]:
        """Give each rank the part in its place, and return what each gives this one. Raises RankLost.

        Parts differ in their first dimension alone. counts: how long those of the others are, where that is known.
        """
        if self.size == 1:
            return list(parts)
        lengths = [len(part) for part in parts]
        given = torch.cat(list(parts))
        with self._exchange():
            if counts is None:
                theirs = torch.empty(self.size, dtype=torch.int64)
                distributed.all_to_all_single(theirs, torch.tensor(lengths), group=self._group)
                counts = theirs.tolist()
            taken = given.new_empty((sum(counts), *given.shape[1:]))
            distributed.all_to_all_single(taken, given, list(counts), lengths, group=self._group)
        return list(torch.split(taken, list(counts)))

    def gather(self, value: Any) -> list[Any]:
        """What each rank gives, in their order; values that JSON can hold. Raises RankLost."""
        if self.size == 1:
            return [value]
        data = torch.frombuffer(bytearray(json.dumps(value).encode()), dtype=torch.uint8)
        return [json.loads(part.numpy().tobytes()) for part in self.exchange([data] * self.size)]

    def apart(self) -> "Ranks":
        """The same ranks for another thread, whose exchanges do not mix with these. All ranks call it."""
        if self.size == 1:
            return self
        with self._exchange():
            group = distributed.new_group(backend="gloo", timeout=_NEVER)
        return Ranks(rank=self.rank, size=self.size, group=group)

    def _broadcast_bytes(self, data: bytes) -> bytes:
        size = torch.tensor([len(data)])
        with self._exchange():
            distributed.broadcast(size, group=self._group, group_src=0)
            content = torch.empty(int(size), dtype=torch.uint8)
            if self.is_first:
                content = torch.frombuffer(bytearray(data), dtype=torch.uint8)
            distributed.broadcast(content, group=self._group, group_src=0)
        return content.numpy().tobytes()

    def _add_others(self, total: Tensor) -> None:
        if total.device.type == "cuda":
            distributed.all_reduce(total, group=self._group)
            return
        for partner in self._partners():
            total += self._swap(total, partner)

    def _sum_sparse(self, total: Tensor) -> Tensor:
        """Both sides add the same two tables, the one of the lower rank first."""
        for partner in self._partners():
            total = total.coalesce()
            indices, values = total.indices(), total.values()
            count = int(self._swap(torch.tensor([len(values)]), partner))
            theirs = self._swap(indices, partner, shape=(1, count)), self._swap(values, partner, shape=(count,))
            ours = indices, values
            (lower, first), (higher, second) = (ours, theirs) if self.rank < partner else (theirs, ours)
            both = torch.sparse_coo_tensor(
                torch.cat([lower, higher], 1), torch.cat([first, second]), total.shape, check_invariants=False
            )
            total = both.coalesce()
        return total

    def _partners(self) -> Iterator[int]:
        """In turn, the rank beside this one, and those as far away as the sums so far have ranks."""
        distance = 1
        while distance < self.size:
            yield self.rank ^ distance
            distance *= 2

    def _swap(self, ours: Tensor, partner: int, shape: tuple[int, ...] | None = None) -> Tensor:
        """The partner's tensor for ours. shape: the first dimensions of theirs, where they may differ."""
        theirs = ours.new_empty(ours.shape if shape is None else (*shape, *ours.shape[len(shape) :]))
        both = [
            distributed.P2POp(distributed.isend, ours.contiguous(), group=self._group, group_peer=partner),
            distributed.P2POp(distributed.irecv, theirs, group=self._group, group_peer=partner),
        ]
        for pending in distributed.batch_isend_irecv(both):
            pending.wait()
        return theirs

    @contextmanager
    def _exchange(self) -> Iterator[None]:
        """The heartbeat says meanwhile that this rank waits for others. Raises RankLost."""
        with self.heartbeat.waiting():
            try:
                yield
            except (RuntimeError, ValueError) as error:
                if lacks_memory(error):
                    raise
                raise RankLost(f"rank {self.rank} lost another one: {error}") from error
