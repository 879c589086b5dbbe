"""lockstep from Python: plan, start and watch training runs, read what they recorded, take their weights, generate text.

>>> import lockstep
>>> run = lockstep.train(model="tiny", data="book.txt", out="runs/first", steps=200)   # a process of its own
>>> for step in run.watch():
...     print(step["step"], step["loss"])
>>> run.history()["loss"][-1]
>>> weights = lockstep.load_weights("runs/first")                                      # numpy arrays, not copied
>>> lockstep.generate("runs/first", "Once upon a time", max_tokens=40)

The package needs Python alone: it calls liblockstep.so through ctypes. numpy is needed for weights, pandas for frames.
Options have the names of the command line with underscores: ``global_batch=8`` is ``--global-batch 8``
(docs/reference/options.md). Training always runs in processes of its own: nothing here forks the Python that calls it.
"""

from __future__ import annotations

from ._library import LockstepError, version
from .history import History, open_history
from .plans import Layout, Plan, plan
from .runs import Run, living_runs, open_run, train
from .text import Tokenizer, generate, stream
from .weights import Weights, load_weights, to_float32

__all__ = [
    "History",
    "Layout",
    "LockstepError",
    "Plan",
    "Run",
    "Tokenizer",
    "Weights",
    "generate",
    "living_runs",
    "load_weights",
    "open_history",
    "open_run",
    "plan",
    "stream",
    "to_float32",
    "train",
    "version",
]
__version__ = version()
