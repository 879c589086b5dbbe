"""package.py: the Python package over the shared library: plans, runs, what they recorded, weights, text."""

from __future__ import annotations

import contextlib
import io
import math
import os
import re
import sys
import tempfile
import unittest
from pathlib import Path

import lockstep

try:
    import numpy
except ImportError:
    numpy = None
try:
    import pandas
except ImportError:
    pandas = None

MODEL = '{"arch": "gpt2", "vocab": 256, "width": 16, "layers": 1, "heads": 2, "positions": 16}'


class Package(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.scratch = tempfile.TemporaryDirectory()
        folder = Path(cls.scratch.name)
        os.environ["XDG_CACHE_HOME"] = str(folder / "cache")
        (folder / "model.json").write_text(MODEL)
        (folder / "text.txt").write_text("".join(f"line {i}: {i * i} quick brown foxes\n" for i in range(200)))
        cls.options = dict(model=folder / "model.json", data=folder / "text.txt", seq=8, global_batch=4, device="cpu")
        cls.folder = folder / "runs" / "first"
        cls.run_of_all = lockstep.train(cls.folder, steps=12, eval_every=5, eval_batches=1, sample_every=6, max_tokens=8, dp=2, **cls.options)
        cls.watched = list(cls.run_of_all.watch(0.05))
        cls.run_of_all.wait()

    @classmethod
    def tearDownClass(cls) -> None:
        cls.scratch.cleanup()

    def test_watch(self) -> None:
        self.assertEqual([step["step"] for step in self.watched], list(range(1, 13)))
        self.assertTrue(all(step["loss"] > 0 and step["lr"] >= 0 for step in self.watched))

    def test_history(self) -> None:
        with lockstep.open_history(self.folder) as history:
            self.assertEqual(len(history), 12)
            self.assertEqual(history["step"], list(range(1, 13)))
            self.assertEqual(history["loss"], [step["loss"] for step in self.watched])
            self.assertEqual(history["val_step"], [5, 10, 12])
            self.assertEqual(len(history["val_loss"]), 3)
            self.assertIn("tokens_per_s", history)
            self.assertNotIn("gpu_wait_ms", history)
            self.assertEqual([sample["step"] for sample in history.samples], [6, 12])
            self.assertEqual(len(history.starts), 1)
            self.assertEqual(history.events, [])
            self.assertFalse(history.is_open)
            self.assertFalse(history.refresh())
            self.assertRaises(KeyError, lambda: history["nothing"])

    def test_fork_and_resume(self) -> None:
        fork = self.folder.parent / "fork"
        lockstep.train(fork, fork=self.folder, steps=15, lr=1e-4, device="cpu").wait()
        with lockstep.open_history(fork) as history:
            self.assertEqual(history["step"], list(range(1, 16)))
            self.assertEqual(history["loss"][:12], [step["loss"] for step in self.watched])
        again = lockstep.train(self.folder, resume=True, device="cpu")
        again.wait()
        self.assertEqual(len(again.history()), 12)

    def test_stop_and_list(self) -> None:
        slow = self.folder.parent / "slow"
        os.environ["LS_FAULT_INPUT"] = "200"
        try:
            run = lockstep.train(slow, steps=1000, **self.options)
        finally:
            del os.environ["LS_FAULT_INPUT"]
        steps = run.watch(0.05)
        next(steps)
        self.assertTrue(run.is_open)
        listed = [r for r in lockstep.living_runs() if r["run"] == str(slow.resolve())]
        self.assertEqual([r["pid"] for r in listed], [run.pid])
        self.assertEqual(run.stop(60), 143)
        self.assertFalse(run.is_open)
        list(steps)  # ends quietly: this caller stopped the run
        with self.assertRaisesRegex(lockstep.LockstepError, r"slow ended at step \d+ of 1000: terminated by "):
            list(lockstep.open_run(slow).watch(0.05))
        self.assertGreaterEqual(len(lockstep.open_run(slow).history()), 1)

    def test_watch_names_a_failure(self) -> None:
        """watch() ends with the reason: of a run that never began, of one that was killed, and of one that others started."""
        with self.assertRaisesRegex(lockstep.LockstepError, "none.txt"):
            list(lockstep.train(self.folder.parent / "nothing", **{**self.options, "data": "none.txt"}).watch(0.05))
        killed = self.folder.parent / "killed"
        os.environ["LS_FAULT_INPUT"] = "200"
        try:
            run = lockstep.train(killed, steps=1000, **self.options)
        finally:
            del os.environ["LS_FAULT_INPUT"]
        steps = run.watch(0.05)
        next(steps)
        other = lockstep.open_run(killed).watch(0.05)
        next(other)
        run.process.kill()
        with self.assertRaisesRegex(lockstep.LockstepError, "status -9"):
            list(steps)
        with self.assertRaisesRegex(lockstep.LockstepError, r"killed ended at step \d+ of 1000: why was not recorded"):
            list(other)
        self.assertEqual([step["step"] for step in lockstep.open_run(self.folder).watch(0.05)][:12], list(range(1, 13)))

    def test_errors(self) -> None:
        self.assertRaises(lockstep.LockstepError, lockstep.open_run, self.folder.parent)
        bad = self.folder.parent / "bad"
        for options, answer in (
            (dict(modle="tiny"), "'train' has no option 'modle'; did you mean model?"),
            (dict(learning_rate=1), "'train' has no option 'learning-rate'; lockstep calls it lr"),
            (dict(steps="many"), "many"),
        ):
            with self.assertRaises(lockstep.LockstepError) as caught:
                lockstep.train(bad, **options)
            self.assertIn(answer, str(caught.exception))
            self.assertEqual(caught.exception.status, "LS_ERR_INPUT")
        self.assertFalse(bad.with_name("bad.log").exists(), "nothing is started")
        with self.assertRaises(lockstep.LockstepError) as caught:
            lockstep.plan("tiny", "H100", gpus=0)
        self.assertEqual(caught.exception.status, "LS_ERR_INPUT")

    def test_plan(self) -> None:
        plan = lockstep.plan("gpt2-124m", "H100", gpus=8, global_batch=64)
        self.assertGreater(len(plan), 0)
        self.assertLessEqual(plan[0].seconds, plan[len(plan) - 1].seconds * 1.011)
        self.assertGreater(plan[0].memory_bytes, 0)
        self.assertIn("dp", plan[0].options())
        self.assertIsInstance(plan.answer, dict)
        self.assertRaises(IndexError, lambda: plan[len(plan)])

    def test_generate(self) -> None:
        text = lockstep.generate(self.folder, "line ", max_tokens=8, temperature=0)
        self.assertTrue(text.startswith("line "))
        self.assertEqual("".join(lockstep.stream(self.folder, "line ", max_tokens=8, temperature=0)), text)
        first = lockstep.stream(self.folder, "line ", max_tokens=8, temperature=0)
        self.assertTrue(next(first))
        first.close()
        self.assertRaises(lockstep.LockstepError, lockstep.generate, self.folder.parent / "none", "x")

    def test_tokenizer(self) -> None:
        tokenizer = lockstep.Tokenizer()
        self.assertEqual(tokenizer.encode("hä"), [104, 195, 164])
        self.assertEqual(tokenizer.decode([104, 195, 164]), "hä")
        self.assertEqual(tokenizer.vocab, 256)

    def test_weights_by_name(self) -> None:
        weights = lockstep.load_weights(self.folder)
        self.assertGreater(len(weights), 5)
        self.assertTrue(all(weights.dtype(name) == "F32" and math.prod(weights.shape(name)) > 0 for name in weights))
        bad = Path(self.scratch.name) / "bad.safetensors"
        header = b'{"x":{"dtype":"F32","shape":[4],"data_offsets":[0,1600]}}'
        bad.write_bytes(len(header).to_bytes(8, "little") + header + b"\0" * 16)
        self.assertRaises(ValueError, lockstep.load_weights, bad)

    @unittest.skipUnless(numpy, "numpy is missing: weights as arrays are not tested")
    def test_weights_as_arrays(self) -> None:
        weights = lockstep.load_weights(self.folder)
        name = next(iter(weights))
        array = weights[name]
        self.assertEqual(array.shape, weights.shape(name))
        self.assertFalse(array.flags.writeable)
        self.assertFalse(array.flags.owndata)
        self.assertTrue(numpy.isfinite(array).all() and (array != 0).any())
        self.assertTrue((lockstep.to_float32(numpy.array([0x3F80, 0xC000], dtype=numpy.uint16)) == [1, -2]).all())
        with lockstep.open_history(self.folder) as history:
            self.assertEqual(history.array("loss").tolist(), history["loss"])

    @unittest.skipUnless(pandas, "pandas is missing: frames are not tested")
    def test_frame(self) -> None:
        with lockstep.open_history(self.folder) as history:
            frame = history.frame()
            self.assertEqual(list(frame.index), list(range(1, 13)))
            self.assertEqual(frame["val_loss"].dropna().index.tolist(), [5, 10, 12])

    def test_page(self) -> None:
        """What docs/reference/python.md shows runs as it is written, less what needs a package that is missing."""
        page = (Path(__file__).resolve().parents[2] / "docs" / "reference" / "python.md").read_text(encoding="utf-8")
        code = "".join(re.findall(r"^```python\n(.*?)^```", page, re.M | re.S))
        self.assertIn("lockstep.generate(", code)
        missing = [word for word, found in ((".frame()", pandas), ("weights", numpy)) if not found]
        shown = "".join(line for line in code.splitlines(True) if not any(word in line for word in missing))
        before, place = os.getcwd(), Path(self.scratch.name) / "page"
        place.mkdir()
        (place / "book.txt").write_text("".join(f"It was the best of times {i}. " for i in range(500)))
        os.chdir(place)
        try:
            with contextlib.redirect_stdout(io.StringIO()) as printed:
                exec(compile(shown, "docs/reference/python.md", "exec"), names := {})
        finally:
            os.chdir(before)
        self.assertEqual(len(names["history"]), 20)
        self.assertIn("\n20 ", printed.getvalue())

    def test_documented(self) -> None:
        """help(lockstep) says something about everything that is public."""
        for name in lockstep.__all__:
            thing = getattr(lockstep, name)
            self.assertTrue(thing.__doc__, name)
            if isinstance(thing, type):
                bare = [m for m, f in vars(thing).items() if not m.startswith("_") and (callable(f) or isinstance(f, property)) and not f.__doc__]
                self.assertEqual(bare, [], name)


if __name__ == "__main__":
    for module, found in (("numpy", numpy), ("pandas", pandas)):
        if not found:
            print(f"python: {sys.executable} has no {module}; what needs it is skipped")
    unittest.main(verbosity=1)
