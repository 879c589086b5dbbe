"""terminal.py: `lockstep train` in a pseudo-terminal. A screen of characters follows what it draws: one block, drawn again in its place, whatever
the size of the window; nothing of the escape sequences of a sample or of a name; without colours where NO_COLOR is set; plain lines in files."""

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time

LOCKSTEP = os.environ["LOCKSTEP"]


class Screen:
    """As much of a terminal as the program may use: text, \\r, \\n, cursor up, erase to the end of the line or of the screen, colours."""

    def __init__(self, rows, columns):
        self.rows, self.columns = rows, columns
        self.lines, self.row, self.column = [[]], 0, 0
        self.colours = 0
        self.pending = b""

    def feed(self, data):
        text = (self.pending + data).decode("utf-8", "surrogateescape")
        self.pending = b""
        i = 0
        while i < len(text):
            c = text[i]
            if c == "\x1b":
                match = re.match(r"\x1b\[([0-9;]*)([A-Za-z])", text[i:])
                if not match:
                    if len(text) - i < 16:
                        self.pending = text[i:].encode("utf-8", "surrogateescape")
                        return
                    raise AssertionError(f"an escape sequence that is not expected: {text[i:i + 16]!r}")
                self.control(match.group(1), match.group(2))
                i += match.end()
                continue
            if c == "\r":
                self.column = 0
            elif c == "\n":
                self.row += 1
                if self.row == len(self.lines):
                    self.lines.append([])
            else:
                assert c >= " ", f"a control character: {c!r}"
                if self.column == self.columns:
                    self.row, self.column = self.row + 1, 0
                    if self.row == len(self.lines):
                        self.lines.append([])
                line = self.lines[self.row]
                line.extend(" " * (self.column + 1 - len(line)))
                line[self.column] = c
                self.column += 1
            i += 1

    def control(self, argument, letter):
        if letter == "m":
            self.colours += 1
        elif letter == "A":
            assert int(argument or 1) <= self.row, "the cursor goes above the first line"
            self.row -= int(argument or 1)
        elif letter in "JK":
            assert argument in ("", "0")
            del self.lines[self.row][self.column:]
            if letter == "J":
                del self.lines[self.row + 1:]
        else:
            raise AssertionError(f"an escape sequence that is not expected: {argument}{letter}")

    def resize(self, rows, columns):
        """Lines that are too long are wrapped, as most terminals do."""
        lines, row = [], 0
        for i, line in enumerate(self.lines):
            if i == self.row:
                row = len(lines)
            parts = [line[k:k + columns] for k in range(0, len(line), columns)] or [[]]
            lines.extend(parts)
        self.lines, self.row, self.rows, self.columns = lines, row, rows, columns

    def text(self):
        return ["".join(line).rstrip() for line in self.lines]


def run(arguments, sizes, environment=None, until=None):
    """Runs the command; the window gets the next of `sizes` when `until` of it says so. Returns its screen and exit status."""
    screen = Screen(*sizes[0])
    pid, fd = pty.fork()
    if pid == 0:
        try:
            env = {**os.environ, "TERM": "xterm-256color", "LC_ALL": "C.UTF-8", **(environment or {})}
            os.execve(LOCKSTEP, [LOCKSTEP, *arguments], env)
        finally:
            os._exit(127)
    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", *sizes[0], 0, 0))
    left = list(sizes[1:])
    deadline = time.monotonic() + 200
    try:
        while True:
            assert time.monotonic() < deadline, "\n".join(screen.text())
            ready, _, _ = select.select([fd], [], [], 1)
            if not ready:
                continue
            try:
                data = os.read(fd, 65536)
            except OSError:
                break
            if not data:
                break
            screen.feed(data)
            if left and until(screen):
                size = left.pop(0)
                screen.resize(*size)
                fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", *size, 0, 0))
    except BaseException:
        os.kill(pid, signal.SIGKILL)
        raise
    finally:
        _, status = os.waitpid(pid, 0)
        os.close(fd)
    return screen, os.waitstatus_to_exitcode(status)


def blocks(screen):
    """How many blocks stand on the screen: one at most, or it was not erased."""
    return sum(bool(re.match(r"guards  (quiet|\d)", line)) for line in screen.text())


def main():
    with tempfile.TemporaryDirectory() as scratch:
        os.chdir(scratch)
        os.environ["XDG_CACHE_HOME"] = scratch + "/cache"
        for name in [n for n in os.environ if n.startswith("LS_") and n != "LS_DEVICE"] + ["NO_COLOR"]:
            os.environ.pop(name, None)
        with open("text.txt", "w") as out:
            out.writelines(f"line {i}: {i * i} quick brown foxes\n" for i in range(200))
        with open("model.json", "w") as out:
            out.write('{"arch": "gpt2", "vocab": 256, "width": 16, "layers": 1, "heads": 2, "positions": 16}')
        command = ["train", "--model", "model.json", "--data", "text.txt", "--seq", "8", "--global-batch", "4", "--eval-every", "40",
                   "--eval-batches", "1"]

        seen = {"most": 0, "block": None}

        def look(screen):
            seen["most"] = max(seen["most"], blocks(screen))
            text = screen.text()
            if blocks(screen) and any(line.startswith("step ") and " ETA " in line and "━" in line for line in text):
                seen["block"] = text[-6:]
                return True
            return False

        # A block, drawn in its place while the window becomes narrower, wider and too small.
        screen, status = run([*command, "--steps", "4000", "--out", "a"], [(30, 100), (30, 60), (30, 120), (5, 30), (24, 80)], None, look)
        text = screen.text()
        assert status == 0, "\n".join(text)
        assert seen["block"], "no block was drawn:\n" + "\n".join(text)
        assert seen["most"] == 1, f"{seen['most']} blocks at a time"
        assert blocks(screen) == 0, "the block is still there:\n" + "\n".join(text)
        assert sum("step 4000/4000 | loss " in line for line in text) == 1, "\n".join(text)
        assert any(re.match(r"step 4000 \| validation loss", line) for line in text), "\n".join(text)
        assert any("▁" in line for line in seen["block"]), seen["block"]
        assert any(re.search(r"tok/s · .* ms a step", line) for line in seen["block"]), seen["block"]
        assert screen.colours > 0
        print("terminal: a block, through five sizes of the window:")
        print("\n".join(seen["block"]))

        # Without colours; in an ASCII locale.
        screen, status = run([*command, "--steps", "400", "--out", "b"], [(30, 100)], {"NO_COLOR": "1", "LC_ALL": "C"})
        assert status == 0 and screen.colours == 0
        assert all(c < "\x80" for line in screen.text() for c in line if "·" not in line and "×" not in line), screen.text()

        # A dumb terminal and a file get plain lines, thinned.
        screen, status = run([*command, "--steps", "400", "--out", "c"], [(30, 100)], {"TERM": "dumb"})
        assert status == 0 and screen.colours == 0 and blocks(screen) == 0
        # The name of a run may contain what a terminal would obey.
        done = subprocess.run([LOCKSTEP, *command, "--steps", "400", "--out", "d\x1b[31m"], capture_output=True, check=True)
        assert b"run       d?[31m, " in done.stdout and b"doctor 'd'$'\\033''[31m'" in done.stdout, done.stdout
        assert b"\x1b" not in done.stdout and b"\r" not in done.stdout
        lines = [line for line in done.stdout.decode().splitlines() if re.match(r"step +\d+/400 \|", line)]
        assert 11 <= len(lines) <= 60 and lines[-1].startswith("step 400/400"), len(lines)
        print(f"terminal: {len(lines)} lines of 400 steps in a file")


sys.exit(main())
