"""Text: what a model writes, and tokens."""

from __future__ import annotations

import codecs
import ctypes
import queue
import threading
from typing import Any, Callable, Iterator, Optional, Sequence

from ._library import Options, PathLike, RunSetup, TEXT_FN, Tokens, check, library, option_value, path_bytes


def _generate(model: PathLike, prompt: Optional[str], options: dict[str, Any], take: Callable[[bytes], bool]) -> int:
    """Calls `take` with bytes as they come, until it says False; the number of tokens."""
    values = {"device": "cpu", **options, "model": model}
    if values["device"] != "cpu":
        raise ValueError("in this process a model runs on the CPU; for a GPU use `lockstep generate`")
    settings = Options("generate", values)
    run, tokens, failure = ctypes.c_void_p(), ctypes.c_int64(), []
    check(library().ls_run_open(ctypes.byref(RunSetup(options=settings.handle)), ctypes.byref(run)))

    def took(_context: Any, text: Any, count: int, stop: Any) -> int:
        try:
            if not take(ctypes.string_at(text, count)):
                stop[0] = 1
        except BaseException as error:  # told to the caller, not to C
            failure.append(error)
            stop[0] = 1
        return 0

    callback = TEXT_FN(took)
    try:
        text = None if prompt is None else prompt.encode()
        check(library().ls_run_generate(run, text, callback, None, ctypes.byref(tokens)))
    finally:
        library().ls_run_close(run)
    if failure:
        raise failure[0]
    return int(tokens.value)


def generate(model: PathLike, prompt: Optional[str] = None, **options: Any) -> str:
    """What a model (a run, a checkpoint, a Hugging Face folder) makes of a prompt, the prompt in front.

    Options are those of `lockstep generate`: max_tokens, temperature, top_k, top_p, seed, stop, threads."""
    pieces: list[bytes] = []

    def take(piece: bytes) -> bool:
        pieces.append(piece)
        return True

    _generate(model, prompt, options, take)
    return b"".join(pieces).decode("utf-8", "replace")


def stream(model: PathLike, prompt: Optional[str] = None, **options: Any) -> Iterator[str]:
    """The same, piece by piece. Ends early where the iterator is closed."""
    pieces: "queue.Queue[Any]" = queue.Queue()
    closed = threading.Event()

    def take(piece: bytes) -> bool:
        pieces.put(piece)
        return not closed.is_set()

    def work() -> None:
        try:
            _generate(model, prompt, options, take)
            pieces.put(None)
        except BaseException as error:
            pieces.put(error)

    worker = threading.Thread(target=work, daemon=True)
    worker.start()
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    try:
        while True:
            piece = pieces.get()
            if piece is None:
                break
            if isinstance(piece, BaseException):
                raise piece
            text = decoder.decode(piece)
            if text:
                yield text
        rest = decoder.decode(b"", final=True)
        if rest:
            yield rest
    finally:
        closed.set()
        worker.join()


class Tokenizer:
    """Text to tokens and back: "bytes", or the folder or file of a tokenizer."""

    def __init__(self, path: PathLike = "bytes") -> None:
        self._handle = ctypes.c_void_p()
        check(library().ls_tokenizer_open(path_bytes(option_value(path)), ctypes.byref(self._handle)))

    @property
    def vocab(self) -> int:
        """How many tokens there are."""
        return int(library().ls_tokenizer_vocab(self._handle))

    def encode(self, text: str) -> list[int]:
        """The tokens of a text, by number."""
        data, tokens = text.encode(), Tokens()
        check(library().ls_tokenizer_encode(self._handle, data, len(data), 0, ctypes.byref(tokens)))
        try:
            return [tokens.ids[i] for i in range(tokens.count)]
        finally:
            library().ls_tokens_fini(ctypes.byref(tokens))

    def decode(self, ids: Sequence[int]) -> str:
        """The text of tokens; bytes that are no UTF-8 become U+FFFD."""
        numbers = (ctypes.c_int32 * len(ids))(*ids)
        text, count = ctypes.c_void_p(), ctypes.c_size_t()
        check(library().ls_tokenizer_decode(self._handle, numbers, len(ids), ctypes.byref(text), ctypes.byref(count)))
        try:
            return ctypes.string_at(text, count.value).decode("utf-8", "replace")
        finally:
            ctypes.CDLL(None).free(text)

    def __del__(self) -> None:
        if getattr(self, "_handle", None):
            library().ls_tokenizer_close(self._handle)
            self._handle = ctypes.c_void_p()
