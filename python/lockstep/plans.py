"""Layouts for a cluster: what fits, how fast it is predicted to be, and what limits it."""

from __future__ import annotations

import ctypes
import json
from typing import Any, Iterator

from ._library import Options, check, library


class Layout:
    """One layout of a plan. ``layout["seconds"]`` and the other numbers of ls_plan_number(): "memory_bytes", "dp", …"""

    def __init__(self, plan: "Plan", index: int) -> None:
        self._plan, self.index = plan, index

    def __getitem__(self, name: str) -> float:
        number = library().ls_plan_number(self._plan._handle, self.index, name.encode())
        if number < 0:
            raise KeyError(name)
        return float(number)

    @property
    def seconds(self) -> float:
        """Of a step, predicted."""
        return self["seconds"]

    @property
    def memory_bytes(self) -> int:
        """Of the heaviest worker."""
        return int(self["memory_bytes"])

    def options(self) -> dict[str, str]:
        """The options of train that run this layout, for ``lockstep.train(**layout.options(), …)``."""
        before, after = Options("train", {}), Options("train", {})
        check(library().ls_plan_apply(self._plan._handle, self.index, after.handle))
        changed = {}
        for name in _LAYOUT_OPTIONS:
            value = after.get(name)
            if value is not None and value != before.get(name):
                changed[name.replace("-", "_")] = value
        return changed

    def __repr__(self) -> str:
        return f"<layout {self.index}: {self.seconds:.4g} s a step>"


_LAYOUT_OPTIONS = (
    "model", "dp", "tp", "pp", "micro-batch", "global-batch", "seq", "schedule", "virtual-stages", "zero", "recompute",
    "sequence-parallel", "shares", "stages", "precision", "workers",
)  # fmt: skip


class Plan:
    """Layouts that fit, the fastest first. ``plan[0]`` is the best; ``plan.answer`` is all that `lockstep plan --json` says."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._handle = ctypes.c_void_p()
        check(library().ls_plan_make(options.handle, ctypes.byref(self._handle)))

    def __len__(self) -> int:
        return int(library().ls_plan_count(self._handle))

    def __getitem__(self, index: int) -> Layout:
        if index < 0:
            index += len(self)
        if not 0 <= index < len(self):
            raise IndexError(index)
        return Layout(self, index)

    def __iter__(self) -> Iterator[Layout]:
        return (Layout(self, i) for i in range(len(self)))

    @property
    def answer(self) -> dict[str, Any]:
        """As a dictionary."""
        text = library().ls_plan_json(self._handle)
        check(0 if text else 1)
        answer: dict[str, Any] = json.loads(text)
        return answer

    def __del__(self) -> None:
        if getattr(self, "_handle", None):
            library().ls_plan_destroy(self._handle)
            self._handle = ctypes.c_void_p()


def plan(model: str, cluster: str, **options: Any) -> Plan:
    """Searches a layout, as `lockstep plan` does. Nothing is run."""
    return Plan(Options("plan", {"model": model, "cluster": cluster, **options}))
