"""A model that counts its training steps aloud, and takes its time over each."""

_MODEL = """
import signal
import time

from torch import nn


class Mine(nn.Module):
    def __init__(self, inputs):
        super().__init__()
        self.layer = nn.Sequential(nn.Linear(inputs, 64), nn.ReLU(), nn.Linear(64, 1))
        self.ticks = 0

    def forward(self, x):
        if self.training and len(x) > 24:  # not the few made-up rows of the trial
            self.ticks += 1
            if {deaf}:
                signal.signal(signal.SIGTERM, signal.SIG_IGN)
            print(f"tick {{self.ticks}}", flush=True)
            time.sleep({seconds})
        return self.layer(x)
"""


def ticking(seconds: float, *, deaf: bool = False) -> str:
    """A pipeline's model.py, with a pause in each step. deaf: it does not hear that it is to stop."""
    return _MODEL.format(seconds=seconds, deaf=deaf)
