"""Training runs, each in processes of its own."""

from __future__ import annotations

import json
import math
import signal
import subprocess
import time
from pathlib import Path
from typing import Any, Iterator, Mapping, Optional

from ._library import LockstepError, Options, PathLike, option_name, option_value
from ._program import program
from .history import History


class Run:
    """A run in a folder; one that was started here also has its process."""

    def __init__(self, folder: PathLike, process: Optional["subprocess.Popen[bytes]"] = None) -> None:
        self.folder = Path(folder)
        self.process = process
        self._stop_requested = False

    # ---- the process

    @property
    def pid(self) -> Optional[int]:
        """Of the command that was started here."""
        return self.process.pid if self.process else None

    def poll(self) -> Optional[int]:
        """The exit status; None: it is still at work, or was not started here."""
        return self.process.poll() if self.process else None

    def wait(self, timeout: Optional[float] = None) -> "Run":
        """Waits for its end. LockstepError: it failed, with what it said last."""
        if self.process is not None:
            self._check_status(self.process.wait(timeout))
        return self

    def _check_status(self, status: int) -> None:
        if status != 0:
            raise LockstepError(f"exit status {status}", self._last_words() or f"training ended with status {status}")

    def stop(self, timeout: Optional[float] = None) -> int:
        """Lets it save and end, as SIGTERM does; its exit status, 143 where it was not done."""
        if self.process is None:
            raise ValueError("this run was not started here: send SIGTERM to the process that `lockstep ps` names")
        if self.process.poll() is None:
            self._stop_requested = True
            self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout)

    def _last_words(self) -> str:
        try:
            lines = (self.folder.parent / (self.folder.name + ".log")).read_text(encoding="utf-8", errors="replace").splitlines()
        except OSError:
            return ""
        return next((line for line in reversed(lines) if line.startswith("lockstep: ")), "")

    # ---- what it recorded

    def history(self) -> History:
        """All that it recorded so far."""
        return History(self.folder)

    @property
    def is_open(self) -> bool:
        """Whether a process is at work in it."""
        try:
            with self.history() as history:
                return history.is_open
        except LockstepError:
            return False

    def _is_at_work(self, history: Optional[History]) -> bool:
        if self.process is not None:
            return self.process.poll() is None
        return history is not None and history.is_open

    def watch(self, interval: float = 0.5) -> Iterator[dict[str, float]]:
        """Its steps, one by one, as they are done, until the run ends. Steps that are done again come once.

        LockstepError, after the last step that was recorded: the run failed, or ended before its last step and neither
        ``stop()`` nor ``early_stop=`` asked for that.
        """
        history: Optional[History] = None
        last = -1
        while True:
            ended = not self._is_at_work(history) and history is not None or self.poll() is not None
            if history is None:
                try:
                    history = self.history()
                except LockstepError:
                    if not ended:
                        time.sleep(interval)
                        continue
            else:
                history.refresh()
            if history is not None:
                for step in _rows_after(history, last):
                    last = int(step["step"])
                    yield step
            if ended:
                self._check_end(history, last)
                return
            time.sleep(interval)

    def _check_end(self, history: Optional[History], last: int) -> None:
        """Raises if the run ended for a reason that its caller has to know."""
        if self._stop_requested:
            return
        if self.process is not None:
            self._check_status(self.process.wait())
            return
        if history is None or history.planned_steps is None or last >= history.planned_steps or history.stopped == "early stop":
            return
        reason = history.stopped or "why was not recorded, so it was probably killed"
        raise LockstepError("ended early", f"{self.folder} ended at step {max(last, 0)} of {history.planned_steps}: {reason}")

    def __repr__(self) -> str:
        return f"<lockstep run {self.folder}>"


def _rows_after(history: History, last: int) -> Iterator[dict[str, float]]:
    """Rows of steps behind step `last`: only what was recorded of each."""
    if "step" not in history:
        return
    steps = history["step"]
    first = len(steps)
    while first > 0 and steps[first - 1] > last:
        first -= 1
    names = [c for c in history.columns if not c.startswith("val_") and c != "step"]
    columns: Mapping[str, list[float]] = {c: history.read(c, first) for c in names}
    for i, step in enumerate(steps[first:]):
        yield {"step": step, **{c: v[i] for c, v in columns.items() if not math.isnan(v[i]) or c == "loss"}}


def train(out: PathLike, **options: Any) -> Run:
    """Starts `lockstep train` with these options, as a process of its own, and returns at once.

    What it prints goes to the file OUT.log beside the folder. ``train("runs/a", resume=True)`` goes on with a run,
    ``train("runs/b", fork="runs/a", steps=900)`` forks one. LockstepError: there is no such option, or its value is out of
    range; nothing was started.
    """
    folder = Path(out)
    given = {name: value for name, value in options.items() if value is not None}
    Options("train", {"out": folder, **given})
    command = [program(), "train", f"--out={option_value(folder)}"]
    command += [f"--{option_name(name)}={option_value(value)}" for name, value in given.items()]
    folder.parent.mkdir(parents=True, exist_ok=True)
    with open(folder.parent / (folder.name + ".log"), "wb") as log:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT)
    return Run(folder, process)


def open_run(folder: PathLike) -> Run:
    """A run that is there, living or ended."""
    History(folder).close()  # fails where it is none
    return Run(folder)


def living_runs() -> list[dict[str, Any]]:
    """The runs that are at work on this machine, as `lockstep ps --json` lists them."""
    done = subprocess.run([program(), "ps", "--json"], check=True, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL)
    runs: list[dict[str, Any]] = json.loads(done.stdout)["runs"]
    return runs
