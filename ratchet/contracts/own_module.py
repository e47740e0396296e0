"""What the module of a pipeline's model.py may ask for, by the names of its parameters.

A parameter without a default is asked for; one with a default keeps it. One parameter with another name gets the first
value of the table: so it was before there were names.
"""

from collections.abc import Collection, Mapping, Sequence

CONSTRUCTOR: Mapping[str, str] = {
    "inputs": "the width of x",
    "numeric": "the numeric columns, then statistics of categories: name, transform, of",
    "categorical": "the categorical columns: name, type, vocabulary, dimension",
    "classes": "the outputs of a row, 1 but for multiclass",
    "objective": "train.objective",
    "vector_columns": "the vector columns: name, dimension",
    "lists": "the list columns: name, type, length, pool, weights, share, vocabulary, dimension",
}
"""Of its constructor, or of the function that makes it."""
FORWARD: Mapping[str, str] = {
    "x": "all inputs side by side",
    "numbers": "the numbers, standardised",
    "missing": "where numbers are missing",
    "vectors": "the vectors of the categories, by column; of a list the pooled one",
    "places": "the places of the categories, by column; of a list one for each value, -1 behind its end",
    "groups": "the number of each row's group",
    "sizes": "the rows of each group",
    "vector_columns": "the vector columns, standardised, by column; the last number says that it is missing",
    "lists": "the vectors of the values of each list, by column, zeros behind its end",
    "list_weights": "the weights of the values of each list, by column, 0 behind its end",
}
"""Of its forward."""
OF_GROUPS = frozenset({"groups", "sizes"})
"""What only a pipeline with a column of role group has."""


def by_name(required: Sequence[str], allowed: Collection[str]) -> bool:
    """Whether values are given by name. required: the parameters without a default."""
    return bool(required) and set(required) <= set(allowed)


def refusal(required: Sequence[str], allowed: Collection[str]) -> tuple[str, str]:
    """(what is wrong, what to do) with parameters that cannot be given."""
    unknown = [name for name in required if name not in allowed]
    if not unknown:
        return "asks for nothing", f"ask for {next(iter(allowed))}"
    return f"asks for {', '.join(unknown)}", f"take {unknown[0]} out, or give it a default"
