"""The network of this pipeline. pipeline.yaml names it: `train: {model: {kind: "model.py:MyModule"}}`.

Ratchet gives each parameter of the constructor and of `forward` what its name asks for. One with a default keeps it.
`ratchet check PIPELINE` tries this file on made-up rows, and trains one step.

A function `loss(scores, labels, weights, groups)` in this file would replace the loss of the objective:
    scores   raw outputs of the network: float32 [rows], or [rows, classes]
    labels   float32 [rows]; standardised for a regression; int64 for a multiclass
    weights  float32 [rows], or None without a column of role weight
    groups   int64 [rows], 0 for the rows of the first group, then 1, 2, ...; or None without a column of role group
    returns  a tensor with one number, a mean over the rows
A metric of your own is a function of metric.py, which evaluate.metric names.
"""

from typing import Any

import torch
from torch import Tensor, nn


class MyModule(nn.Module):
    """Hidden layers whose outputs are added to what they got, after a scale of each input."""

    def __init__(self, inputs: int, classes: int, width: int = 64) -> None:
        """The constructor makes the same parameters each time: training, evaluation and serving call it.

        It may ask for:
            inputs       the width of x
            numeric      the numeric columns, then statistics of categories; each with name, transform and of
            categorical  the categorical columns, each with name, type, vocabulary and dimension
            classes      the outputs of a row: 1, or the classes of a multiclass
            objective    train.objective
        """
        super().__init__()
        self.scale = nn.Parameter(torch.ones(inputs))
        self.first = nn.Linear(inputs, width)
        self.second = nn.Linear(width, width)
        self.head = nn.Linear(width, classes)
        self.dropout = nn.Dropout(0.1)

    def forward(self, x: Tensor) -> Tensor:
        """Raw outputs, [rows, classes]: no sigmoid, no softmax. After eval() a row has the same output in any batch.

        It may ask for:
            x        float32 [rows, inputs]: numbers, missing and vectors side by side
            numbers  float32 [rows, numeric columns], standardised, 0 where missing
            missing  float32 [rows, numeric columns], 1 where a value is missing
            vectors  by categorical column, its learned vectors: float32 [rows, dimension]
            places   by categorical column, int64 [rows]: 0 for unknown, else 1 to vocabulary
            groups   int64 [rows], the number of each row's group; its rows lie next to each other
            sizes    int64 [groups], the rows of each group, as for x.split(sizes.tolist())
        groups and sizes need a column of role group. A row's output may then depend on the rows of its group, in any
        order, and a service has to send whole groups.
        """
        hidden = torch.relu(self.first(x * self.scale))
        hidden = hidden + torch.relu(self.second(self.dropout(hidden)))
        out: Tensor = self.head(hidden)
        return out

    def parameter_groups(self) -> list[dict[str, Any]]:
        """Parameters with another learning rate or weight decay. Without this method, matrices have that of train.

        params: a list of parameters. factor: of the learning rate. weight_decay: in place of train.weight_decay.
        """
        return [{"params": [self.scale], "factor": 0.3, "weight_decay": 0.0}]
