"""Weights as numpy arrays over the files themselves: mapped into memory, read only, nothing copied."""

from __future__ import annotations

import json
import math
import mmap
import os
from pathlib import Path
from typing import Any, Iterator, Mapping

from ._library import PathLike

# bfloat16 is no type of numpy: its bits are, and to_float32() makes numbers of them.
_TYPES = {
    "F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2", "I64": "<i8", "I32": "<i4", "I16": "<i2", "I8": "|i1", "U8": "|u1",
    "BOOL": "|b1",
}  # fmt: skip
_HEADER_MAX = 100 << 20


def _files(path: Path) -> list[Path]:
    """The safetensors files of a run (its newest checkpoint), a checkpoint, a Hugging Face folder; or the file itself."""
    if path.is_file():
        return [path]
    latest = path / "checkpoints" / "latest"
    if latest.exists() or latest.is_symlink():
        path = latest.resolve() if latest.is_dir() else path / "checkpoints" / latest.read_text(encoding="utf-8").strip()
    index = path / "model.safetensors.index.json"
    if index.exists():
        names = sorted(set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values()))
        if any(os.path.basename(name) != name for name in names):
            raise ValueError(f"{index} names files that are not beside it")
        return [path / name for name in names]
    found = sorted(path.glob("weights*.safetensors")) or sorted(path.glob("model*.safetensors"))
    if not found:
        raise FileNotFoundError(f"{path} has no weights (*.safetensors)")
    return found


class Weights(Mapping[str, Any]):
    """Tensors by name. The arrays are views of the files: they cannot be written, and they live as long as one of them does.
    ``dtype(name)`` is the type in the file: "F32", "BF16" (whose array has its bits as uint16), …"""

    def __init__(self, path: PathLike) -> None:
        self._entries: dict[str, tuple[Any, str, tuple[int, ...], int]] = {}
        self.files = _files(Path(path))
        for file in self.files:
            self._add(file)

    def _add(self, path: Path) -> None:
        with open(path, "rb") as file:
            data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        length = int.from_bytes(data[:8], "little") if len(data) >= 8 else -1
        if not 2 <= length <= min(_HEADER_MAX, len(data) - 8):
            raise ValueError(f"{path} is not a safetensors file")
        header = json.loads(data[8 : 8 + length])
        for name, about in header.items():
            if name == "__metadata__":
                continue
            begin, end = about["data_offsets"]
            shape, dtype = tuple(about["shape"]), about["dtype"]
            if dtype not in _TYPES:
                raise ValueError(f"{path}: {name} has the type {dtype}, which is not known here")
            bytes_of_one = int(_TYPES[dtype][2:])
            if not 0 <= begin <= end <= len(data) - 8 - length or end - begin != math.prod(shape) * bytes_of_one:
                raise ValueError(f"{path}: the place of {name} is not inside the file")
            self._entries[name] = (data, dtype, shape, 8 + length + begin)

    def dtype(self, name: str) -> str:
        """The type in the file: F32, BF16, F16 …"""
        return self._entries[name][1]

    def shape(self, name: str) -> tuple[int, ...]:
        """The sizes of its dimensions."""
        return self._entries[name][2]

    def __getitem__(self, name: str) -> Any:
        import numpy

        data, dtype, shape, at = self._entries[name]
        array = numpy.frombuffer(data, dtype=_TYPES[dtype], count=math.prod(shape), offset=at)
        return array.reshape(shape)

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)


def load_weights(path: PathLike) -> Weights:
    """The weights of a run, a checkpoint, a Hugging Face folder or a safetensors file."""
    return Weights(path)


def to_float32(array: Any) -> Any:
    """A copy as float32; an array of uint16 is taken for bfloat16."""
    import numpy

    if array.dtype == numpy.uint16:
        return (array.astype(numpy.uint32) << 16).view(numpy.float32)
    return array.astype(numpy.float32)
