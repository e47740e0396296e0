"""Whether the MLflow server answers."""

from ratchet.contracts.diagnosis import Diagnosis
from ratchet.contracts.errors import ConfigurationError, RatchetError
from ratchet.tracking.rest import RestClient


def diagnose_registry(uri: str | None) -> Diagnosis:
    """Ask it for an experiment. Without a server there is nothing to ask: MLflow's data are in the store."""
    if uri is None:
        return Diagnosis(name="registry", well=True, text="models are registered in the store")
    if not uri.startswith(("http://", "https://")):
        return Diagnosis(name="registry", well=None, text=f"{uri.partition(':')[0]}: no MLflow server to ask")
    client = RestClient(uri)
    try:
        client.ask("GET", "experiments/search", {"max_results": 1})
    except RatchetError as error:
        well = False if isinstance(error, ConfigurationError) else None
        return Diagnosis(name="registry", well=well, text=f"{error.cause}; {error.remedy}")
    return Diagnosis(name="registry", well=True, text=f"MLflow answers at {client.address}")
