"""Which parameters decay, and which have a rate of their own."""

from tasks.train.optimizer import make_optimizer, set_learning_rate
from tests.train.miniature import network


def test_matrices_decay_and_biases_and_vectors_do_not() -> None:
    made = network("binary")
    optimizer = make_optimizer(made, learning_rate=0.1, weight_decay=0.5)
    set_learning_rate(optimizer, 0.01)
    names = {id(weight): name for name, weight in made.named_parameters()}
    groups = {
        names[id(weight)]: (group["weight_decay"], group["lr"], group["eps"])
        for group in optimizer.param_groups
        for weight in group["params"]
    }
    assert set(groups) == set(names.values())
    assert groups["body.deep.0.weight"] == groups["numbers.columns.weight"] == (0.5, 0.01, 1e-8)
    assert groups["body.deep.0.bias"] == (0.0, 0.01, 1e-8)
    assert groups["embedding.tables.4.weight"] == (0.0, 0.03, 1e-3)
