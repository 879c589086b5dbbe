"""The program lockstep: where it is."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path


def program() -> str:
    """LOCKSTEP; the program in the package; that of the build folder beside the sources; the one in PATH."""
    given = os.environ.get("LOCKSTEP")
    if given:
        return given
    here = Path(__file__).resolve().parent
    for place in (here / "bin" / "lockstep", here.parent.parent / "build" / "lockstep"):
        if os.access(place, os.X_OK):
            return str(place)
    found = shutil.which("lockstep")
    if not found:
        raise FileNotFoundError("the program lockstep was not found: install it, or name it in LOCKSTEP")
    return found


def main() -> None:
    """The command `lockstep` of the wheel."""
    name = program()
    os.execv(name, [name, *sys.argv[1:]])
