"""Whether the environment's variables are settings of Ratchet, with values that it can read."""

import difflib
import os
from collections.abc import Iterator

from ratchet.contracts.diagnosis import Diagnosis
from ratchet.contracts.environment import PREFIX, Environment, environment, is_setting
from ratchet.contracts.errors import ConfigurationError

_CLOSE = {PREFIX: 0.85, "MLFLOW_TRACKING_": 0.9}
"""By the beginning of a name: how alike two names are, from 0 to 1, where one is taken for a slip of the other.

Other programs may use the rest, and MLflow has variables of its own.
"""


def diagnose_settings() -> Iterator[Diagnosis]:
    """One line for each variable that is wrong or misspelt; one that all is well, if none is."""
    wrong = [*_unreadable(), *_misspelt()]
    yield from wrong
    if not wrong:
        known = {str(field.alias) for field in Environment.model_fields.values()}
        given = sorted(known & os.environ.keys())
        yield Diagnosis(name="settings", well=True, text=", ".join(given) or "all have their defaults")


def _unreadable() -> Iterator[Diagnosis]:
    here = environment()
    for field in Environment.model_fields:
        try:
            getattr(here, field)
        except ConfigurationError as error:
            yield Diagnosis(name="settings", well=False, text=f"{error.cause}; {error.remedy}")


def _misspelt() -> Iterator[Diagnosis]:
    known = [str(field.alias) for field in Environment.model_fields.values()]
    for name in sorted(os.environ):
        cutoff = next((least for begin, least in _CLOSE.items() if name.startswith(begin)), None)
        if cutoff is None or name in known or (name.startswith(PREFIX) and is_setting(name)):
            continue
        for meant in difflib.get_close_matches(name, known, n=1, cutoff=cutoff):
            yield Diagnosis(
                name="settings",
                well=False,
                text=f"{name} is no setting, and has no effect; {meant} is meant, or unset it",
            )
