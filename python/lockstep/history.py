"""What a run recorded: one series, each step once, however often it was resumed, recovered or forked."""

from __future__ import annotations

import ctypes
import json
from typing import Any, Iterator, Optional

from ._library import PathLike, check, library, path_bytes


class History:
    """The series of a run. ``history["loss"]`` is a list of floats, as long as ``history["step"]``; evaluations are
    ``history["val_loss"]`` beside ``history["val_step"]``. NaN stands for what was not recorded."""

    def __init__(self, run: PathLike) -> None:
        self._handle = ctypes.c_void_p()
        check(library().ls_history_open(path_bytes(run), ctypes.byref(self._handle)))

    def refresh(self) -> bool:
        """Reads what the run has recorded since; whether there is anything new."""
        changed = ctypes.c_int()
        check(library().ls_history_refresh(self._handle, ctypes.byref(changed)))
        return bool(changed.value)

    @property
    def is_open(self) -> bool:
        """Whether a process is at work in the run."""
        return bool(library().ls_history_is_open(self._handle))

    @property
    def columns(self) -> list[str]:
        """Names of what was recorded."""
        names: list[str] = []
        while True:
            name = library().ls_history_column(self._handle, len(names))
            if name is None:
                return names
            names.append(name.decode())

    def count(self, column: str) -> int:
        """How many numbers a column has."""
        return int(library().ls_history_count(self._handle, column.encode()))

    def _buffer(self, column: str, first: int) -> Any:
        count = max(self.count(column) - first, 0)
        buffer = (ctypes.c_double * count)()
        got = library().ls_history_read(self._handle, column.encode(), first, count, buffer)
        assert got == count
        return buffer

    def read(self, column: str, first: int = 0) -> list[float]:
        """The numbers of a column from number `first` on. KeyError: nothing was recorded under this name."""
        if column not in self.columns:
            raise KeyError(column)
        numbers = list(self._buffer(column, first))
        return [int(x) for x in numbers] if column in ("step", "val_step") else numbers

    def __getitem__(self, column: str) -> list[float]:
        return self.read(column)

    def __contains__(self, column: object) -> bool:
        return column in self.columns

    def __iter__(self) -> Iterator[str]:
        return iter(self.columns)

    def __len__(self) -> int:
        return self.count("step")

    def array(self, column: str) -> Any:
        """The same as a numpy array."""
        import numpy

        if column not in self.columns:
            raise KeyError(column)
        return numpy.array(self._buffer(column, 0), dtype=numpy.float64)

    def frame(self) -> Any:
        """All columns as a pandas frame with the steps as its index; evaluations stand at their steps."""
        import pandas  # type: ignore[import-untyped,unused-ignore]

        steps = [c for c in self.columns if not c.startswith("val_") and c != "step"]
        frame = pandas.DataFrame({c: self[c] for c in steps}, index=pandas.Index(self["step"], name="step"))
        if "val_step" in self:
            names = [c for c in self.columns if c.startswith("val_") and c != "val_step"]
            validation = pandas.DataFrame({c: self[c] for c in names}, index=pandas.Index(self["val_step"], name="step"))
            frame = frame.join(validation[~validation.index.duplicated(keep="last")], how="outer")
        return frame

    def _object(self) -> dict[str, Any]:
        text = library().ls_history_json(self._handle)
        if text is None:
            raise MemoryError("the events of a run")
        record: dict[str, Any] = json.loads(text)
        return record

    def _list(self, name: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self._object()[name]
        return found

    @property
    def starts(self) -> list[dict[str, Any]]:
        """Processes that made steps of the run."""
        return self._list("starts")

    @property
    def events(self) -> list[dict[str, Any]]:
        """What guards noticed."""
        return self._list("events")

    @property
    def samples(self) -> list[dict[str, Any]]:
        """Texts that the model wrote while it learned."""
        return self._list("samples")

    @property
    def planned_steps(self) -> Optional[int]:
        """Steps of the whole run (``steps=``). None: the run did not record them."""
        return self._object().get("planned_steps")

    @property
    def stopped(self) -> Optional[str]:
        """Why the last process ended before the last step, as the process recorded it. None: it ended at the last step, is at
        work, or was killed."""
        return self._object().get("stopped")

    def close(self) -> None:
        """Gives the memory back; the object is of no use then."""
        if self._handle:
            library().ls_history_close(self._handle)
            self._handle = ctypes.c_void_p()

    def __enter__(self) -> "History":
        return self

    def __exit__(self, *_: Optional[object]) -> None:
        self.close()

    def __del__(self) -> None:
        if getattr(self, "_handle", None):
            self.close()


def open_history(run: PathLike) -> History:
    """What the run in this folder recorded."""
    return History(run)
