"""A refit asked as a service asks it: the check that evaluate makes of a candidate, on the bits that are shipped.

A change here violates the promise of the project when a refit is shipped that was not asked as it will be served.
"""

import numpy as np

from ratchet.contracts import summaries
from ratchet.contracts.judgements import Service
from ratchet.contracts.result import StageResult
from ratchet.model import holdout, service
from ratchet.model.derivation import FILE
from ratchet.model.files import lay_out
from ratchet.model.package import pack, unpack
from ratchet.model.process import ModelProcess, write_rows
from ratchet.runtime.context import StageContext


def ask_as_service(ctx: StageContext, measured: StageResult) -> tuple[Service, str]:
    """What it took, and why a service must not have this refit: a code and a sentence, or nothing.

    The refit is in the outputs; the rows that were asked for and its answers are added. measured: the training that it
    repeats, whose held-out rows are asked for.
    """
    spec = ctx.spec
    refit = measured.model_copy(update={"outputs": ctx.transaction.outputs})
    package = unpack(pack(), ctx.scratch / "refit-scoring")
    folder = lay_out(ctx.store, refit, ctx.scratch / "refit", ctx.scratch)
    with ModelProcess(package, folder, ctx.disk) as model:
        snapshot, days = summaries.snapshot(ctx.upstream("ingest")), summaries.trained(measured).split.holdout
        held = holdout.read(ctx.store, spec, snapshot, days, ctx.disk)
        derives = (ctx.folder / FILE).is_file()
        groups = service.by_group(spec.train.objective, folder, derives=derives)
        sample = service.sample_of(held, spec.group if groups else None)
        *asked, served = service.ask(model, held.frame, sample)
        scores = service.score(model, held.frame, held)
    write_rows(held.frame.iloc[sample.places], ctx.disk / "asked.arrow")
    ctx.transaction.add("asked", ctx.disk / "asked.arrow", rows=len(sample.places))
    np.save(ctx.disk / "answers.npy", asked[1], allow_pickle=False)
    ctx.transaction.add("answers", ctx.disk / "answers.npy")
    rounds = service.may_round(folder, spec.train.model.kind, derives=derives)
    refused = service.refusal(scores, asked, served, sample, spec.register_, rounds=rounds)
    return served, ": ".join(refused) if refused else ""
