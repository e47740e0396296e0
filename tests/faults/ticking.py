"""A model that counts its training steps aloud, and takes its time over each."""

_MODEL = """
import signal
import time

from torch import nn


class Mine(nn.Module):
    def __init__(self, inputs):
        super().__init__()
        self.layers = {layers}
        self.ticks = 0

    def forward(self, x):
        if self.training:
            self.ticks += 1
            if {deaf}:
                signal.signal(signal.SIGTERM, signal.SIG_IGN)
            print(f"tick {{self.ticks}}", flush=True)
            time.sleep({seconds})
        else:
            time.sleep({judging})
        return self.layers(x)
"""


_LINEAR = "nn.Linear(inputs, 1)"
_DEEPER = "nn.Sequential(nn.Linear(inputs, 32), nn.ReLU(), nn.Linear(32, 1))"


def ticking(seconds: float, *, deaf: bool = False, judging: float = 0.0, learns: bool = False) -> str:
    """A pipeline's model.py, with a pause in each step. deaf: it does not hear that it is to stop.

    judging: the pause for each batch that is scored. learns: it is good enough for production.
    """
    return _MODEL.format(seconds=seconds, deaf=deaf, judging=judging, layers=_DEEPER if learns else _LINEAR)
