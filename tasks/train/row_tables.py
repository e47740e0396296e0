"""Tables of vectors that are sharded by row: rank r of W has the rows r, r + W, r + 2 W, ... of each.

Before a shard of a step is computed, its rows are fetched from the ranks that have them. Their gradients go back there,
where those of all ranks are added in the order of a binary tree. So the bits are those of a whole table.

A change here violates the promise of the project when a sharded training ends with other bits on another number of
ranks, on a CPU, or when what a rank has of a table while it trains does not fall with their number.
"""

import gc
from collections.abc import Iterator

import torch
from torch import Tensor, nn
from torch.nn import functional

from ratchet.model.networks import Network
from tasks.train.ranks import Ranks

_BLOCK_BYTES = 16 << 20
"""Of a table, that all ranks send to the first one at once."""


class RowTable(nn.Embedding):
    """The rows of one rank. `weight` has row `place` of the table at `place // W`; num_embeddings: of all ranks.

    fetched: the vectors of the last `fetch`, of which a backward pass computes gradients.
    """

    def __init__(self, weight: Tensor, *, rows: int, ranks: Ranks, padding: int | None = None) -> None:
        """weight: this rank's rows of the table. rows: of the whole table. padding: a row that stays as it is."""
        super().__init__(weight.shape[0], weight.shape[1], sparse=True, _weight=weight)
        self.num_embeddings, self.padding_idx, self.ranks = rows, padding, ranks
        self._places = torch.tensor([-1])  # none yet
        self._padding: int | None = None
        self._asked: list[Tensor] | None = None
        self.fetched = weight.new_empty((0, weight.shape[1]))

    def forward(self, places: Tensor) -> Tensor:
        """The vectors of places that were fetched. Of another place it raises IndexError, as of one past a table."""
        if self._asked is not None:
            self._asked.append(_unique(places.reshape(-1).long()))
            return self.weight.new_zeros(()).expand(*places.shape, self.embedding_dim)
        wanted = places.long().contiguous()
        found = torch.searchsorted(self._places, wanted)
        is_here = self._places[found.clamp(max=len(self._places) - 1)] == wanted
        found = torch.where(is_here, found, len(self._places))
        return functional.embedding(found, self.fetched, self._padding, sparse=True)

    def ask(self) -> None:
        """From here on note what `forward` is asked for, until `fetch`."""
        self._asked = []

    @torch.no_grad()
    def fetch(self) -> None:
        """Get the vectors that were asked for. All ranks call it, also those that need none."""
        asked = torch.cat([*(self._asked or ()), torch.empty(0, dtype=torch.int64, device=self.weight.device)])
        if self.padding_idx is not None:
            asked = torch.cat([asked, asked.new_tensor([self.padding_idx])])
        self._asked, self._places = None, _unique(asked)
        self._padding = None if self.padding_idx is None else int((self._places < self.padding_idx).sum())
        order, counts = self._by_owner(self._places)
        wanted = self.ranks.exchange(torch.split(self._places[order] // self.ranks.size, counts))
        taken = torch.cat(self.ranks.exchange([self.weight[rows] for rows in wanted], counts))
        self.fetched = torch.empty_like(taken).index_copy_(0, order, taken)
        self.fetched.requires_grad_(not torch.is_inference_mode_enabled())

    def take_gradient(self) -> Tensor:
        """The gradient of what was fetched, as that of a whole table: sparse, its places ascending."""
        gradient, self.fetched.grad = self.fetched.grad, None
        if gradient is None:
            return self._sparse(self._places[:0], self.fetched.detach()[:0], self.num_embeddings)
        gradient = gradient.coalesce()
        return self._sparse(self._places[gradient.indices()[0]], gradient.values(), self.num_embeddings)

    def sum_at_owners(self, gradient: Tensor) -> Tensor:
        """The sum over all ranks of their gradients of the whole table: of this rank's rows."""
        places, values = gradient.indices()[0], gradient.values()
        order, counts = self._by_owner(places)
        rows = self.ranks.exchange(torch.split(places[order] // self.ranks.size, counts))
        numbers = self.ranks.exchange(torch.split(values[order], counts), [len(some) for some in rows])
        parts = [self._sparse(*both, len(self.weight)) for both in zip(rows, numbers, strict=True)]
        while len(parts) > 1:
            parts = [(one + two).coalesce() for one, two in zip(parts[::2], parts[1::2], strict=True)]
        return parts[0]

    def whole(self) -> Tensor | None:
        """The whole table, on the host, for the first rank; None for the others. All ranks call it."""
        if self.ranks.size == 1:
            return self.weight.detach()
        weight, size = self.weight.detach(), self.ranks.size
        table = torch.empty(self.num_embeddings, self.embedding_dim) if self.ranks.is_first else None
        rows = max(_BLOCK_BYTES // (self.embedding_dim * weight.element_size() * size), 1)
        for begin in range(0, -(-self.num_embeddings // size), rows):
            own = weight[begin : begin + rows]
            parts = self.ranks.exchange([own, *[own[:0]] * (size - 1)])
            if table is not None:
                for rank, part in enumerate(parts):
                    table[begin * size + rank :: size][: len(part)] = part.cpu()
        return table

    def _by_owner(self, places: Tensor) -> tuple[Tensor, list[int]]:
        """The order by the rank that has each place, and how many each rank has."""
        size = self.ranks.size
        if size == 1:
            return torch.arange(len(places), device=places.device), [len(places)]
        owners, order = torch.sort(places % size, stable=True)
        ends = torch.searchsorted(owners, torch.arange(size, device=places.device), right=True)
        counts: list[int] = ends.diff(prepend=ends.new_zeros(1)).tolist()
        return order, counts

    def _sparse(self, rows: Tensor, values: Tensor, count: int) -> Tensor:
        shape = (count, self.embedding_dim)
        return torch.sparse_coo_tensor(rows.unsqueeze(0), values, shape, is_coalesced=True, check_invariants=False)


def shard(network: Network, ranks: Ranks, *, smallest: int) -> int:
    """Keep this rank's rows of each table that has `smallest` rows and more. Returns the number of such tables."""
    tables = network.embedding.tables
    large = [(name, table) for name, table in _tables(network) if table.num_embeddings >= smallest]
    for name, table in large:
        own = table.weight.detach()[ranks.rank :: ranks.size]
        kept = own if ranks.size == 1 else own.clone(memory_format=torch.contiguous_format)
        tables[name] = RowTable(kept, rows=table.num_embeddings, ranks=ranks, padding=table.padding_idx)
    return len(large)


def unshard(network: Network) -> None:
    """Give the first rank whole tables. All ranks call it; the others keep their rows."""
    sharded = [(name, table) for name, table in _tables(network) if isinstance(table, RowTable)]
    if sharded:
        gc.collect()  # a loop that has ended refers to itself, and to moments and a checkpoint's copy
    for name, table in sharded:
        weight = table.whole()
        if weight is not None:
            whole = nn.Embedding(len(weight), weight.shape[1], table.padding_idx, sparse=True, _weight=weight)
            network.embedding.tables[name] = whole


def row_tables(network: nn.Module) -> list[RowTable]:
    """The sharded tables of a network."""
    return [module for module in network.modules() if isinstance(module, RowTable)]


def fetch(network: Network, places: Tensor | None) -> None:
    """Get what rows need of all sharded tables. places: of the rows; None for none. All ranks call it alike.

    Also the vectors of what the columns do not know: in training a share of all categories counts as that.
    """
    tables = row_tables(network)
    if not tables:
        return
    for table in tables:
        table.ask()
    embedding, device = network.embedding, network.embedding.first.device
    asked = [embedding.first.unsqueeze(0)]
    if places is not None:
        asked.append(places.to(device, non_blocking=True))
    with torch.no_grad():
        for some in asked:
            embedding(some)
    for table in tables:
        table.fetch()


def with_gradients(network: nn.Module) -> Iterator[Tensor]:
    """What a backward pass computes gradients of: parameters, and what was fetched."""
    yield from network.parameters()
    for table in row_tables(network):
        yield table.fetched


def forget_gradients(network: nn.Module) -> None:
    """Forget all gradients."""
    for each in with_gradients(network):
        each.grad = None


def norm_of_rows(gradient: Tensor, ranks: Ranks) -> Tensor:
    """The norm of the gradient of a table, of all ranks, from the sum of squares of each row, in the order of places.

    gradient: sparse, of this rank's rows.
    """
    rows, squares = gradient.indices()[0], gradient.values().double().square().sum(1)
    if ranks.size > 1:
        places = torch.cat(ranks.exchange([rows * ranks.size + ranks.rank] * ranks.size))
        squares = torch.cat(ranks.exchange([squares] * ranks.size))[places.argsort()]
    return squares.sum().sqrt()


def _unique(places: Tensor) -> Tensor:
    """Each place once, ascending."""
    ordered = places.sort().values
    is_new = torch.ones(len(ordered), dtype=torch.bool, device=ordered.device)
    is_new[1:] = ordered[1:] != ordered[:-1]
    return ordered[is_new]


def _tables(network: Network) -> list[tuple[str, nn.Embedding]]:
    return [(name, table) for name, table in network.embedding.tables.items() if isinstance(table, nn.Embedding)]
