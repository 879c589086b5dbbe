"""Runs the peer's side of a benchmark: PyTorch, if the Python that runs the benchmark has it."""
import importlib.util
import os
import sys


def add_option(parser):
    parser.add_argument("--no-peer", "--no-pytorch", action="store_true", help="measure lockstep alone")


def check(args):
    """Sets args.no_peer if PyTorch is not installed, and says so. Both sides run on the CPU unless LS_DEVICE says otherwise."""
    os.environ.setdefault("LS_DEVICE", "cpu")
    if not args.no_peer and importlib.util.find_spec("torch") is None:
        print(f"PyTorch: left out, {sys.executable} has no torch: tools/venv makes a Python that has", file=sys.stderr)
        args.no_peer = True
