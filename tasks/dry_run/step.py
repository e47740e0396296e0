"""One step of training on the encoded made-up rows of a pipeline."""

from dataclasses import replace
from datetime import date
from pathlib import Path

import numpy as np
import torch

from ratchet.contracts.errors import ConfigurationError
from ratchet.contracts.pipeline import PipelineSpec
from ratchet.contracts.quantities import show_memory
from ratchet.contracts.summaries import FeatureSet, Split
from ratchet.model.boosted import Boosted
from ratchet.model.custom import custom_body
from ratchet.model.description import Description
from ratchet.model.fitted_state import FittedState
from ratchet.model.lists import own
from ratchet.model.networks import Network, Predictor
from ratchet.runtime.user_code import lacks_memory
from tasks.dry_run.report import Report
from tasks.features.category_statistics import Source
from tasks.features.day import EncodedDay, categorical, numeric, reads, statistical
from tasks.features.fitting import fit as fit_days
from tasks.train.building import describe, fit
from tasks.train.custom_code import load_loss, locate_errors
from tasks.train.data import Rows
from tasks.train.optimizer import Optimizers
from tasks.train.startup import prepare
from tasks.train.trial import try_own_code, try_step

_DAY = date(2026, 1, 1)
_CPU = torch.device("cpu")


def try_training(spec: PipelineSpec, folder: Path, encoded: EncodedDay | None, report: Report, memory: int) -> None:
    """Load model.py, and train one step on the CPU. encoded: None tries the pipeline's own network alone.

    memory: bytes that this process may use. Reports the first problem.
    """
    kind = spec.train.model.kind
    file = kind.partition(":")[0] if ":" in kind else ""
    report.step(f"import of {file}" if file else "one step of training")
    if spec.resources["train"].gpus:
        torch.manual_seed(spec.train.seed)
    else:
        prepare(seed=spec.train.seed, cpus=1, gpus=0)
    try:
        with locate_errors(folder, kind):
            fitted = _fitted(spec, encoded)
            features = FeatureSet(
                numeric=numeric(spec),
                categorical=tuple(categorical(spec)),
                days=(),
                split=Split(train=(), valid=(), holdout=()),
            )
            description = describe(spec, folder, features, fitted)
            if description.architecture.is_boosted:
                if encoded is not None:
                    _round(spec, description, fitted, encoded)
                return
            loss, mass = load_loss(spec.train.objective, kind, folder)
            report.step(f"one step of training with {file}" if file else "one step of training")
            weighted, grouped = bool(spec.with_role("weight")), spec.group is not None
            try_own_code(
                description,
                folder,
                _CPU,
                loss=loss,
                mass=mass,
                weighted=weighted,
                grouped=grouped,
                precision=spec.train.precision,
            )
            if encoded is not None:
                _step(spec, folder, description, fitted, encoded)
    except Exception as error:
        if lacks_memory(error):
            report.problem(_too_large(memory))
        elif isinstance(error, ConfigurationError):
            report.problem(error)
        else:
            raise


def _too_large(memory: int) -> ConfigurationError:
    return ConfigurationError(
        f"resources.train.memory: one step of training on a few rows needs more than {show_memory(memory)}",
        remedy="raise it, or make train.model smaller",
    )


def _fitted(spec: PipelineSpec, encoded: EncodedDay | None) -> FittedState:
    """What the rows say of the columns; of no rows, what changes nothing."""
    if encoded is None:
        empty = np.zeros(0, np.int64)
        columns, statistics = reads(spec), len(statistical(spec))
        wide = sum(one.dimension for one in columns.vectors) + sum(one.length for one in columns.lists if one.weights)
        count = len(columns.numeric) + statistics
        return FittedState(
            mean=np.zeros(count + wide),
            std=np.ones(count + wide),
            vocabulary=tuple(empty for _ in (*columns.categorical, *own(columns.lists))),
            edges=tuple(np.zeros(0) for _ in range(count)),
            statistics=np.zeros(statistics),
        )
    counts = [encoded.arrays["categories"].astype(np.int64)]
    statistics_source = None
    if wanted := statistical(spec):
        sums = [encoded.arrays["label_sums"].astype(np.float64)]
        statistics_source = Source(
            wanted=wanted, days=[_DAY], counts=counts, sums=sums, learnt=[_DAY], label=encoded.label
        )
    return fit_days(
        encoded.numeric,
        counts,
        [encoded.arrays["quantiles"].astype(np.float64)],
        encoded.label,
        columns=reads(spec),
        min_count=1,
        statistics=statistics_source,
    )


def _round(spec: PipelineSpec, description: Description, fitted: FittedState, encoded: EncodedDay) -> None:
    """A round of boosted trees. Raises ConfigurationError if the rows are none that LightGBM takes."""
    from tasks.train.trees import Grower, TreeSettings, TreeText

    model, keys = fit(Boosted(description), fitted), spec.train.model
    rows = _rows(spec, model, encoded)
    shape = TreeSettings(
        objective=spec.train.objective,
        classes=description.classes,
        leaves=keys.leaves,
        rate=keys.rate,
        min_rows=keys.min_rows,
        unmeasured=1,
        seed=spec.train.seed,
        threads=1,
    )
    Grower(model, shape, rows).begin(rows, None, TreeText()).update()


def _step(spec: PipelineSpec, folder: Path, description: Description, fitted: FittedState, encoded: EncodedDay) -> None:
    """One step of the optimizer. Raises ConfigurationError if the loss, a gradient or a weight is not finite."""
    kind = spec.train.model.kind
    network = fit(Network(description, custom_body(description, folder)), fitted)
    loss, mass = load_loss(spec.train.objective, kind, folder)
    found = try_step(network, _rows(spec, network, encoded), folder, kind, loss=loss, mass=mass)
    file = kind.partition(":")[0] if ":" in kind else "train"
    wrong = f"the loss is {found}" if not np.isfinite(found) else ""
    gradients = {name: weight.grad for name, weight in network.named_parameters() if weight.grad is not None}
    for name, gradient in gradients.items():
        if not wrong and not bool(gradient.isfinite().all()):
            wrong = f"the gradient of {name.removeprefix('body.')} is not finite"
    learning_rate, weight_decay = spec.train.rates
    Optimizers(network, learning_rate=learning_rate, weight_decay=weight_decay, kind=spec.train.optimizer).step()
    if not wrong and not all(bool(weight.isfinite().all()) for weight in network.parameters()):
        wrong = "a weight is not finite after the step"
    if wrong:
        raise ConfigurationError(
            f"{file}: {wrong} in one step on {len(encoded.arrays['label'])} made-up rows",
            remedy="look for a division by zero, a logarithm or a root in the network and the loss",
        )


def _rows(spec: PipelineSpec, network: Predictor, encoded: EncodedDay) -> Rows:
    """The rows as training reads them, with the labels as the loss takes them."""
    tensors = {name: torch.from_numpy(np.ascontiguousarray(array)) for name, array in encoded.arrays.items()}
    places = network.preprocess.places(tensors["categorical"])
    rows = Rows(
        numeric=network.preprocess.with_statistics(tensors["numeric"], places).float(),
        places=places,
        label=tensors["label"],
        weight=tensors.get("weight"),
        sizes=tensors["group"].diff() if "group" in tensors else None,
    )
    if spec.train.objective != "regression":
        return rows
    return replace(rows, label=((rows.label - network.label_mean) / network.label_scale).float())
