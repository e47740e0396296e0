"""Modules that are slow to import: neither planning nor parsing a DAG file may load them."""

HEAVY = frozenset(
    {
        "apprise",
        "boto3",
        "deltalake",
        "docker",
        "great_expectations",
        "mlflow",
        "numpy",
        "pandas",
        "polars",
        "pyarrow",
        "torch",
    }
)
