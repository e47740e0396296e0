"""The runs that trainings leave in an MLflow server, see `live_run`: listed, and deleted."""

from collections.abc import Iterator
from dataclasses import dataclass

from ratchet.tracking.live_run import STORE_TAG, TAG, experiment_of
from ratchet.tracking.rest import RestClient

_PAGE = 1000


@dataclass(frozen=True, kw_only=True)
class Training:
    """One of them. run_id: the run of Ratchet that it belongs to. begun_ms: milliseconds since 1970."""

    id: str
    run_id: str
    begun_ms: int


class Trainings:
    """Those of one store on one server. Every call raises Unavailable if it does not answer."""

    def __init__(self, uri: str, *, store: str) -> None:
        """store: the label of the store whose trainings they are; others may be on the server, too."""
        self._client, self._store = RestClient(uri), store

    def of(self, pipeline: str) -> Iterator[Training]:
        """Those of a pipeline that were not deleted."""
        experiment = self._client.ask("GET", "/experiments/get-by-name", {"experiment_name": experiment_of(pipeline)})
        page = "" if experiment else None
        while page is not None and experiment is not None:
            asked = {
                "experiment_ids": [experiment["experiment"]["experiment_id"]],
                "filter": f"tags.`{TAG}` LIKE '%' and tags.`{STORE_TAG}` = '{self._store}'",
                "run_view_type": "ACTIVE_ONLY",
                "max_results": _PAGE,
                **({"page_token": page} if page else {}),
            }
            answer = self._client.ask("POST", "/runs/search", asked) or {}
            for run in answer.get("runs", ()):
                tags = {tag["key"]: tag["value"] for tag in run["data"].get("tags", ())}
                yield Training(
                    id=run["info"]["run_id"],
                    run_id=tags[TAG].rpartition(" ")[0],
                    begun_ms=int(run["info"]["start_time"]),
                )
            page = answer.get("next_page_token") or None

    def delete(self, training: Training) -> None:
        """Delete one; one that is gone is left alone."""
        self._client.ask("POST", "/runs/delete", {"run_id": training.id})
