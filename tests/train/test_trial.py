"""A network or a loss of the pipeline's own that cannot be trained is refused, with its line, before days are read."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from ratchet.contracts.errors import ConfigurationError
from ratchet.model.description import Architecture, CategoricalColumn, Description, GroupColumn, NumericColumn
from tasks.train.custom_code import load_loss
from tasks.train.trial import try_own_code

NETWORK = """import torch
from torch import nn

class Mine(nn.Module):
    def __init__(self, inputs):
        super().__init__()
        self.layer = nn.Linear(inputs, OUTPUTS)

    def forward(self, x):
        return BODY
"""
LOSS = "\ndef loss(scores, labels, weights, groups):\n    return VALUE\n"
CPU = torch.device("cpu")
OUTPUTS = {"multiclass": 3}


def tried(
    folder: Path,
    objective: str = "binary",
    *,
    body: str = "self.layer(x)",
    loss: str = "",
    outputs: int = 0,
    roles: tuple[str, ...] = (),
    code: str = NETWORK,
    device: torch.device = CPU,
    precision: str = "fp32",
) -> None:
    """Try a model.py. outputs: of its layer, by default as many as the objective has."""
    classes = OUTPUTS.get(objective, 1)
    text = code.replace("OUTPUTS", str(outputs or classes)).replace("BODY", body)
    (folder / "model.py").write_text(text + (LOSS.replace("VALUE", loss) if loss else ""), encoding="utf-8")
    description = Description(
        objective=objective,
        numeric=(NumericColumn(name="price", transform="log1p"), NumericColumn(name="rating", transform=None)),
        categorical=(CategoricalColumn(name="shop", type="string", vocabulary=100_000, dimension=4),),
        derived={},
        architecture=Architecture(kind="model.py:Mine", hidden=(), cross_layers=1, dropout=0),
        classes=classes,
    )
    value, mass = load_loss(objective, "model.py:Mine", folder)
    weighted, grouped = "weight" in roles, "group" in roles
    description = replace(description, group=GroupColumn(name="query", type="int64") if grouped else None)
    try_own_code(
        description, folder, device, loss=value, mass=mass, weighted=weighted, grouped=grouped, precision=precision
    )


@pytest.mark.parametrize("objective", ["binary", "regression", "multiclass", "ranking"])
def test_a_network_that_fits_is_fine(tmp_path: Path, objective: str) -> None:
    tried(tmp_path, objective, roles=("group", "weight"))


@pytest.mark.parametrize(
    ("objective", "outputs", "body", "shape"),
    [
        ("binary", 2, "self.layer(x)", r"a tensor of shape \[24, 2\]"),
        ("regression", 1, "self.layer(x).mean(0)", r"a tensor of shape \[1\]"),
        ("regression", 1, "self.layer(x).mean()", r"a tensor of shape \[\]"),
        ("regression", 1, "self.layer(x)[:1]", r"a tensor of shape \[1, 1\]"),
        ("regression", 1, "self.layer(x)[:, None]", r"a tensor of shape \[24, 1, 1\]"),
        ("ranking", 1, "self.layer(x).T", r"a tensor of shape \[1, 24\]"),
        ("multiclass", 1, "self.layer(x)", r"a tensor of shape \[24, 1\]"),
        ("multiclass", 4, "self.layer(x)", r"a tensor of shape \[24, 4\]"),
        ("binary", 1, "(self.layer(x), x)", "a tuple"),
        ("binary", 1, "None", "None"),
    ],
)
def test_an_output_of_another_shape_is_refused(
    tmp_path: Path, objective: str, outputs: int, body: str, shape: str
) -> None:
    message = rf"^model\.py:9: forward returned {shape} for 24 rows; allowed: a tensor of shape \[rows"
    with pytest.raises(ConfigurationError, match=message) as caught:
        tried(tmp_path, objective, body=body, outputs=outputs, roles=("group",))
    assert caught.value.code == 64


def test_an_output_of_a_module_of_torch_is_refused_at_the_line_that_makes_it(tmp_path: Path) -> None:
    code = "from torch import nn\n\ndef Mine(inputs):\n    return nn.Sequential(nn.Linear(inputs, 2))\n"
    with pytest.raises(ConfigurationError, match=r"^model\.py:3: forward returned a tensor of shape \[24, 2\]"):
        tried(tmp_path, code=code)


@pytest.mark.parametrize(
    "body",
    ["self.layer(x - x.mean(0))", "self.layer(x) / len(x)", "self.layer(x).cumsum(0)", "self.layer(x).softmax(0)"],
)
def test_a_network_that_mixes_rows_is_refused(tmp_path: Path, body: str) -> None:
    with pytest.raises(
        ConfigurationError, match=r"^model\.py:9: forward gives a row \S+ alone and \S+ in a batch of 24"
    ):
        tried(tmp_path, body=body)


def test_a_network_that_mixes_rows_is_refused_although_its_outputs_start_at_zero(tmp_path: Path) -> None:
    code = NETWORK.replace(
        "OUTPUTS)", "OUTPUTS)\n        nn.init.zeros_(self.layer.weight)\n        nn.init.zeros_(self.layer.bias)"
    )
    tried(tmp_path, code=code)
    with pytest.raises(ConfigurationError, match=r"^model\.py:11: forward gives a row \S+ alone and"):
        tried(tmp_path, code=code, body="self.layer(x - x.mean(0))")


GROUPS = NETWORK.replace("self, x", "self, x, groups")
MEAN = "self.layer(x - torch.zeros_like(x).index_add(0, groups, x)[groups] / torch.bincount(groups)[groups, None])"


def test_a_network_that_asks_for_groups_may_look_at_the_rows_of_its_group(tmp_path: Path) -> None:
    tried(tmp_path, "ranking", code=GROUPS, body=MEAN, roles=("group",))
    tried(tmp_path, "ranking", code=NETWORK.replace("self, x", "self, x, sizes"), body="torch.cat([self.layer(some - some.amax(0)) for some in x.split(sizes.tolist())])", roles=("group",))  # fmt: skip


@pytest.mark.parametrize(
    ("body", "how"),
    [
        ("self.layer(x - x.mean(0)) + groups[:, None] * 0", "in its group alone"),
        ("self.layer(x) + groups[:, None]", "in its group alone"),
        (
            "self.layer(x) + torch.cat([torch.arange(n) for n in torch.bincount(groups)])[:, None]",
            "in another order of its group",
        ),
    ],
)
def test_a_network_that_asks_for_groups_and_looks_further_is_refused(tmp_path: Path, body: str, how: str) -> None:
    message = rf"^model\.py:9: forward gives a row \S+ {how} and \S+ in a batch of 24; allowed: .* its group"
    with pytest.raises(ConfigurationError, match=message):
        tried(tmp_path, "ranking", code=GROUPS, body=body, roles=("group",))


def test_a_network_that_asks_for_groups_without_a_column_of_them_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"^model\.py:9: forward asks for groups, and no column has the role"):
        tried(tmp_path, code=GROUPS, body=MEAN)


def test_parameter_groups_that_cannot_be_used_are_refused_before_a_day_is_read(tmp_path: Path) -> None:
    code = NETWORK + "\n    def parameter_groups(self):\n        return self.layer.weight\n"
    with pytest.raises(
        ConfigurationError, match=r"^model\.py:12: parameter_groups returned a tensor of shape \[1, 8\]"
    ):
        tried(tmp_path, code=code)


def test_a_step_whose_gradient_cannot_be_computed_is_refused(tmp_path: Path) -> None:
    message = r"^model\.py:{}: the gradient of a step cannot be computed: RuntimeError: {}"
    with pytest.raises(ConfigurationError, match=message.format(9, "one of the variables needed for gradient")):
        tried(tmp_path, body="self.layer(x).exp().add_(1).mul_(2).sigmoid_().mul_(3)")
    with pytest.raises(ConfigurationError, match=message.format(12, "Found dtype Double but expected Float")):
        tried(tmp_path, loss="nn.functional.huber_loss(scores, labels.double())")


@pytest.mark.parametrize("precision", ["bf16", "fp16"])
def test_layers_that_fail_in_the_precision_of_training_are_refused(tmp_path: Path, precision: str) -> None:
    """An empty tensor of the inputs' type has 32 bits, and what a layer made has 16."""
    body = "x.new_zeros(len(x), 1).index_add(0, torch.arange(len(x)), self.layer(x))"
    tried(tmp_path, body=body)
    with pytest.raises(ConfigurationError, match=r"^model\.py:10: RuntimeError: index_add_\(\): self \(Float\)"):
        tried(tmp_path, body=body, precision=precision)


def test_layers_that_mix_rows_in_training_alone_are_fine(tmp_path: Path) -> None:
    code = "from torch import nn\n\ndef Mine(inputs):\n    norm = nn.BatchNorm1d(inputs)\n    return nn.Sequential(norm, nn.Dropout(0.5), nn.Linear(inputs, 1))\n"
    tried(tmp_path, code=code)


def test_outputs_without_a_gradient_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"^model\.py:9: forward returned outputs without a gradient"):
        tried(tmp_path, body="self.layer(x).detach()")


MEANS = {
    "mean": "(scores - labels).square().mean()",
    "weights": "((scores - labels).square() * weights).mean()",
    "a share of groups": "(scores - labels).square().sum() / len(groups)",
    "quantiles": "torch.maximum(0.9 * (labels - scores), 0.1 * (scores - labels)).mean()",
}
OTHERS = {
    "sum": "(scores - labels).square().sum()",
    "mean over weights": "((scores - labels).square() * weights).sum() / weights.sum()",
    "mean over groups": "(scores - labels).square().sum() / (groups.max() + 1)",
    "root": "(scores - labels).square().mean().sqrt()",
    "maximum": "(scores - labels).abs().max()",
    "correlation": "-torch.corrcoef(torch.stack([scores, labels]))[0, 1]",
}


@pytest.mark.parametrize("loss", MEANS.values(), ids=MEANS)
def test_a_loss_that_is_a_mean_over_rows_is_fine(tmp_path: Path, loss: str) -> None:
    tried(tmp_path, "regression", loss=loss, roles=("group", "weight"))


@pytest.mark.parametrize("loss", OTHERS.values(), ids=OTHERS)
def test_a_loss_that_parts_do_not_add_up_to_is_refused(tmp_path: Path, loss: str) -> None:
    message = (
        r"^model\.py:12: loss of 24 rows is \S+, and \S+ if they are computed in \d parts, .* allowed: a mean over rows"
    )
    with pytest.raises(ConfigurationError, match=message) as caught:
        tried(tmp_path, "regression", loss=loss, roles=("group", "weight"))
    assert caught.value.code == 64


def test_a_loss_that_is_not_finite_is_left_to_the_training(tmp_path: Path) -> None:
    tried(tmp_path, loss="scores.mean() / 0")


def test_the_trial_leaves_the_random_numbers_as_they_are(tmp_path: Path) -> None:
    torch.manual_seed(7)
    expected = torch.rand(3)
    torch.manual_seed(7)
    tried(tmp_path, body="self.layer(nn.functional.dropout(x, training=self.training))")
    assert torch.equal(torch.rand(3), expected)


def test_a_lack_of_memory_is_left_to_the_training(tmp_path: Path) -> None:
    code = NETWORK + "raise_ = MemoryError\n\ndef loss(scores, labels, weights, groups):\n    raise MemoryError\n"
    tried(tmp_path, code=code)


def test_own_vectors_with_a_sparse_gradient_are_refused(tmp_path: Path) -> None:
    code = NETWORK.replace(
        "def forward(self, x):",
        "    self.vectors = nn.Embedding(9, OUTPUTS, sparse=True)\n\n    def forward(self, x):",
    )
    with pytest.raises(ConfigurationError) as raised:
        tried(tmp_path, body="self.layer(x) + self.vectors(torch.zeros(len(x), dtype=torch.int64))", code=code)
    assert raised.value.cause == "model.py:11: the gradient of vectors.weight is sparse; allowed: dense gradients"
    assert raised.value.remedy == "make its nn.Embedding without sparse=True"
