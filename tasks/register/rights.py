"""Whether this run may do to production what its plan says: by the file that was planned, and by the answers of people.

A change here violates the promise of the project when register trusts that an earlier task has asked.
"""

import json

from pydantic import ValidationError

from ratchet.contracts.approval import counted, why_not_approved
from ratchet.contracts.authority import Approval
from ratchet.contracts.errors import ConfigurationError
from ratchet.contracts.gate import Register
from ratchet.contracts.gate_keys import allows
from ratchet.contracts.loading import FILE
from ratchet.contracts.request import StageRequest
from ratchet.contracts.yaml_lines import YamlDocument
from ratchet.runtime.context import StageContext


def check_rights(ctx: StageContext) -> None:
    """Raise ConfigurationError if the run may not register: more promotion than its file allows, or no approval."""
    request = ctx.request
    of_file, mode = _register(ctx), request.promotion.mode
    if not allows(of_file.promote, mode):
        raise ConfigurationError(
            f"register: the plan of run {request.run_id} says promote {mode}, and register.promote of its file is "
            f"{of_file.promote}: the plan was changed after it was made",
            remedy="start a new run of this date, and find out who may write to the store",
        )
    if mode != "approve":
        return
    lacking = why_not_approved(
        request.approvals,
        of_file,
        started_by=request.started_by,
        evaluation=request.inputs["evaluate"].content,
    )
    if lacking:
        raise ConfigurationError(
            f"register: register.promote is approve, and {lacking}",
            remedy="clear the task approve of this run, and have its question answered; to mark the task as a success "
            "is no answer",
        )


def approvals_of(request: StageRequest) -> tuple[Approval, ...]:
    """Who said yes to the candidate, of a run that had to ask."""
    given = counted(
        request.approvals,
        request.spec.register_,
        started_by=request.started_by,
        evaluation=request.inputs["evaluate"].content,
    )
    return tuple(Approval(name=one.by, at=one.at, how=f"airflow{f': {one.text}' if one.text else ''}") for one in given)


def _register(ctx: StageContext) -> Register:
    """The section of the file as it was packed, which has its digest in its name; the plan's spec is only text.

    No other section is read: their rules are for people's files, and one of them needs a library that no stage has.
    """
    try:
        found = YamlDocument((ctx.folder / FILE).read_text(encoding="utf-8"), FILE).data
        section = found.get("register", {}) if isinstance(found, dict) else {}
        return Register.model_validate_json(json.dumps(section), strict=True)
    except (OSError, ValidationError):  # a folder, or a section, of another release
        return ctx.spec.register_
