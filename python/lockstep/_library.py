"""The shared library: where it is, what its functions take, and its errors as exceptions."""

from __future__ import annotations

import ctypes
import logging
import os
import re
from pathlib import Path
from typing import Any, Iterator, Mapping, Optional, Union

PathLike = Union[str, "os.PathLike[str]"]

_log = logging.getLogger("lockstep")


class LockstepError(RuntimeError):
    """What lockstep could not do. ``status`` is the name of the status, as LS_ERR_INPUT."""

    def __init__(self, status: str, message: str) -> None:
        super().__init__(message)
        self.status = status


def _candidates() -> Iterator[str]:
    """LOCKSTEP_LIBRARY; the library in the package; that of the build folder beside the sources; the system's."""
    given = os.environ.get("LOCKSTEP_LIBRARY")
    if given:
        yield given
        return
    here = Path(__file__).resolve().parent
    yield str(here / "liblockstep.so")
    yield str(here.parent.parent / "build" / "liblockstep.so")
    yield "liblockstep.so.0.2"


_MESSAGE_FN = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_char_p)
TEXT_FN = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_void_p, ctypes.POINTER(ctypes.c_char), ctypes.c_size_t, ctypes.POINTER(ctypes.c_int)
)


class RunSetup(ctypes.Structure):
    """ls_run_setup."""

    _fields_ = [
        ("options", ctypes.c_void_p),
        ("data", ctypes.c_void_p),
        ("validation", ctypes.c_void_p),
        ("event", ctypes.c_void_p),
        ("event_ctx", ctypes.c_void_p),
    ]


class Tokens(ctypes.Structure):
    """ls_tokens."""

    _fields_ = [("ids", ctypes.POINTER(ctypes.c_int32)), ("count", ctypes.c_size_t), ("capacity", ctypes.c_size_t)]


def _declare(library: ctypes.CDLL) -> None:
    handle, text, number, size = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int, ctypes.c_size_t
    out = ctypes.POINTER(ctypes.c_void_p)
    signatures: Mapping[str, tuple[Any, list[Any]]] = {
        "ls_status_message": (text, []),
        "ls_status_name": (text, [number]),
        "ls_message_handler_set": (None, [_MESSAGE_FN, handle]),
        "ls_options_create": (number, [text, out]),
        "ls_options_destroy": (None, [handle]),
        "ls_options_set": (number, [handle, text, text]),
        "ls_options_get": (text, [handle, text]),
        "ls_plan_make": (number, [handle, out]),
        "ls_plan_destroy": (None, [handle]),
        "ls_plan_count": (number, [handle]),
        "ls_plan_number": (ctypes.c_double, [handle, number, text]),
        "ls_plan_json": (text, [handle]),
        "ls_plan_apply": (number, [handle, number, handle]),
        "ls_history_open": (number, [text, out]),
        "ls_history_close": (None, [handle]),
        "ls_history_refresh": (number, [handle, ctypes.POINTER(number)]),
        "ls_history_is_open": (number, [handle]),
        "ls_history_column": (text, [handle, size]),
        "ls_history_count": (size, [handle, text]),
        "ls_history_read": (size, [handle, text, size, size, ctypes.POINTER(ctypes.c_double)]),
        "ls_history_json": (text, [handle]),
        "ls_run_open": (number, [ctypes.POINTER(RunSetup), out]),
        "ls_run_close": (None, [handle]),
        "ls_run_generate": (number, [handle, text, TEXT_FN, handle, ctypes.POINTER(ctypes.c_int64)]),
        "ls_tokenizer_open": (number, [text, out]),
        "ls_tokenizer_close": (None, [handle]),
        "ls_tokenizer_vocab": (ctypes.c_uint32, [handle]),
        "ls_tokenizer_encode": (number, [handle, handle, size, ctypes.c_uint, ctypes.POINTER(Tokens)]),
        "ls_tokenizer_decode": (
            number,
            [handle, ctypes.POINTER(ctypes.c_int32), size, ctypes.POINTER(handle), ctypes.POINTER(size)],
        ),
        "ls_tokens_fini": (None, [ctypes.POINTER(Tokens)]),
    }
    for name, (result, arguments) in signatures.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments


def _take_message(_context: Any, line: bytes) -> None:
    _log.warning("%s", line.decode("utf-8", "replace"))


_take = _MESSAGE_FN(_take_message)  # must live as long as the library calls it

_loaded: Optional[ctypes.CDLL] = None


def library() -> ctypes.CDLL:
    """The library, loaded when it is first needed. Its warnings go to the logger "lockstep"."""
    global _loaded
    if _loaded is not None:
        return _loaded
    tried = []
    for name in _candidates():
        if "/" in name and not os.path.exists(name):
            tried.append(name)
            continue
        try:
            found = ctypes.CDLL(name)
        except OSError as error:
            tried.append(str(error))
            continue
        _declare(found)
        found.ls_message_handler_set(_take, None)
        _loaded = found
        return found
    raise ImportError("liblockstep.so was not found (make shared builds it, LOCKSTEP_LIBRARY names it): " + "; ".join(tried))


def check(status: int) -> None:
    """Raises what went wrong."""
    if status != 0:
        name = library().ls_status_name(status).decode()
        raise LockstepError(name, library().ls_status_message().decode("utf-8", "replace"))


def path_bytes(path: PathLike) -> bytes:
    return os.fsencode(os.fspath(path))


def option_name(name: str) -> str:
    """global_batch and global-batch are --global-batch."""
    return name.replace("_", "-")


def option_value(value: Any) -> str:
    """As the command line has it: True is "true", a list has commas."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple)):
        return ",".join(option_value(item) for item in value)
    if isinstance(value, os.PathLike):
        return str(os.fspath(value))
    return repr(value) if isinstance(value, float) else str(value)


class Options:
    """The options of one command. Closed with the object."""

    def __init__(self, command: str, values: Mapping[str, Any]) -> None:
        self._handle = ctypes.c_void_p()
        check(library().ls_options_create(command.encode(), ctypes.byref(self._handle)))
        for name, value in values.items():
            if value is not None:
                self.set(name, value)

    def set(self, name: str, value: Any) -> None:
        check(library().ls_options_set(self._handle, option_name(name).encode(), os.fsencode(option_value(value))))

    def get(self, name: str) -> Optional[str]:
        text = library().ls_options_get(self._handle, option_name(name).encode())
        return None if text is None else os.fsdecode(text)

    @property
    def handle(self) -> ctypes.c_void_p:
        return self._handle

    def __del__(self) -> None:
        if _loaded is not None and getattr(self, "_handle", None):
            _loaded.ls_options_destroy(self._handle)
            self._handle = ctypes.c_void_p()


def version() -> str:
    """The version of the package, which is that of the sources it came with."""
    header = Path(__file__).resolve().parent.parent.parent / "include" / "lockstep.h"
    if header.exists():
        found = re.search(r'^#define LS_VERSION "(.*)"', header.read_text(encoding="utf-8"), re.M)
        if found:
            return found.group(1)
    from importlib import metadata

    try:
        return metadata.version("lockstep")
    except metadata.PackageNotFoundError:
        return "0"
