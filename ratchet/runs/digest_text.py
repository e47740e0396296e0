"""The text of a digest: what waits for a person first, then failures, promotions, and the rest."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from ratchet.pages.words import count
from ratchet.runs.digest_runs import STATES, Ran, State

_MOST_LINES = 20
"""Lines of a group; the others are a number."""
_GROUPS: tuple[tuple[str, frozenset[State]], ...] = (
    ("Failed", frozenset({"failed"})),
    ("Promoted and withheld", frozenset({"withheld", "promoted"})),
    ("The rest", frozenset({"inconclusive", "rejected", "would promote", "still running"})),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Digest:
    """What one receiver is told. waits: a line for each thing that waits for them.

    nights: the address below which each pipeline has a page of its nights.
    """

    since: datetime
    pipelines: int
    ran: Sequence[Ran]
    waits: Sequence[str]
    nights: str

    @property
    def is_well(self) -> bool:
        """Whether nothing failed, and nothing waits."""
        return not self.waits and not self._with("failed")

    @property
    def title(self) -> str:
        """The counts, of pipelines: `Ratchet: 14 ran, 1 promoted, 2 failed, 3 wait for you`."""
        said = [f"{len(self.ran)} ran" if self.ran else "nothing ran"]
        said += [f"{number} {state}" for state in ("promoted", "failed") if (number := self._with(state))]
        if self.waits:
            said.append(f"{len(self.waits)} {'waits' if len(self.waits) == 1 else 'wait'} for you")
        return f"Ratchet: {', '.join(said)}"

    @property
    def body(self) -> str:
        """All that is known, in groups."""
        lines = [f"{count(self.pipelines, 'pipeline')}, since {self.since:%Y-%m-%d %H:%M %Z}"]
        lines += _group("Waits for you", self.waits)
        for name, states in _GROUPS:
            ours = sorted((one for one in self.ran if one.worst in states), key=lambda one: STATES.index(one.worst))
            lines += _group(name, [f"{one.text}  {self.nights}/{one.pipeline}" for one in ours])
        silent = self.pipelines - len(self.ran)
        if silent:
            lines += ["", f"{count(silent, 'pipeline')} did not run" if self.ran else "Nothing ran"]
        return "\n".join(lines)

    def _with(self, state: State) -> int:
        return sum(state in one.states for one in self.ran)


def _group(name: str, lines: Sequence[str]) -> Iterator[str]:
    if lines:
        yield from ("", f"{name}: {len(lines)}", *(f"  {line}" for line in lines[:_MOST_LINES]))
        if len(lines) > _MOST_LINES:
            yield f"  and {len(lines) - _MOST_LINES} more"
