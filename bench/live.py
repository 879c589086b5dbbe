#!/usr/bin/env python3
"""live.py LOCKSTEP [--quick]: measures the cost of watching a run.

1. The processor time, by getrusage, of all that observes a run while one page is open, /metrics is read each second and event files are
   written, beside that of the run: LIVE_MODEL (llama-160m) on all cores, for LIVE_SECONDS (60).
2. How soon a run of a million steps opens, and a folder of a thousand runs lists.

--quick: a tiny model, two seconds, a run of 10,000 steps and 20 runs, without limits: a look, not a measurement."""
import http.client, os, re, shutil, subprocess, sys, tempfile, threading, time, urllib.request

from metrics import read_steps

QUICK = "--quick" in sys.argv[2:]
SECONDS = float(os.environ.get("LIVE_SECONDS", "2" if QUICK else "60"))
STEPS, RUNS = (10000, 20) if QUICK else (1000000, 1000)


def start(*argv):
    log = tempfile.TemporaryFile("w+")
    process = subprocess.Popen(argv, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
    end = time.monotonic() + 120
    while time.monotonic() < end:
        log.seek(0)
        found = re.search(r"^page +(http://\S+/)$", log.read(), re.M)
        if found:
            return process, found[1]
        if process.poll() is not None:
            break
        time.sleep(0.05)
    log.seek(0)
    raise SystemExit(log.read())


def end(process, at_once=True):
    """Ends a process; its seconds on a core, and those of all below it, by getrusage."""
    if at_once:
        process.terminate()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return usage.ru_utime + usage.ru_stime


def observe(page, ends):
    with urllib.request.urlopen(page + "events", timeout=600) as stream:
        try:
            while stream.read1(65536):
                pass
        except (OSError, http.client.IncompleteRead):
            assert ends.is_set(), "the stream broke off"


def cost(lockstep, work):
    """A page is open, /metrics is read each second, event files are written, from the first step to the end."""
    text, runs = os.path.join(work, "book.txt"), os.path.join(work, "runs")
    open(text, "w").write("".join(f"It was the best of times {i}. " for i in range(20000)))
    model = os.environ.get("LIVE_MODEL", "tiny" if QUICK else "llama-160m")
    out = os.path.join(runs, "r")
    run = subprocess.Popen([lockstep, "train", "--model", model, "--data", text, "--tokenizer", "bytes", "--seq", "128", "--global-batch", "4",
                            "--steps", "1000000", "--save-every", "0", "--out", out], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while len(read_steps(out)) < 1:
        time.sleep(0.2)
        if run.poll() is not None:
            raise SystemExit(f"the run of {model} ended")
    board = subprocess.Popen([lockstep, "metrics", out, "--tensorboard", "--follow"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
    watch, page = start(lockstep, "watch", runs, "--live", "0")
    ends = threading.Event()
    threading.Thread(target=observe, args=(page, ends), daemon=True).start()
    first, begin = len(read_steps(out)), time.monotonic()
    while time.monotonic() - begin < SECONDS:
        urllib.request.urlopen(page + "metrics", timeout=60).read()
        time.sleep(1)
    steps, seconds = len(read_steps(out)) - first, time.monotonic() - begin
    ends.set()
    watched = end(watch)
    board.stdin.close()
    written = end(board, at_once=False)
    trained = end(run)
    share = (watched + written) / trained
    print(f"{model}, {steps} steps in {seconds:.0f} s: the run used {trained:.1f} s of processor time ({os.cpu_count()} cores, "
          f"load {os.getloadavg()[0]:.0f}); the page, open and scraped each second, {watched:.3f} s, the event files {written:.3f} s: {100 * share:.3f} % (limit 0.2 %)", flush=True)
    return share <= 0.002


def opens(lockstep, work):
    big = os.path.join(work, "big", "million")
    os.makedirs(big)
    open(os.path.join(big, "identity.json"), "w").write('{"hash": "0", "fields": {}}')
    with open(os.path.join(big, "metrics.jsonl"), "w") as out:
        for step in range(1, STEPS + 1):
            out.write(f'{{"step":{step},"loss":{5 / step ** 0.1:.15g},"norm":1.25,"lr":0.0006,"ms":12.5,"tokens_per_s":20480.5}}\n')
    many = os.path.join(work, "many")
    for i in range(RUNS):
        run = os.path.join(many, f"run-{i:04d}")
        os.makedirs(run)
        open(os.path.join(run, "config.json"), "w").write('{"model": "tiny", "steps": "300", "global-batch": "8", "seq": "64"}')
        with open(os.path.join(run, "metrics.jsonl"), "w") as out:
            for step in range(1, 301):
                out.write(f'{{"step":{step},"loss":{5 / step ** 0.1:.15g},"norm":1.25,"lr":0.0006,"ms":12.5,"tokens_per_s":20480.5}}\n')
    good = True
    for folder, what in ((os.path.join(work, "big"), f"a run of {STEPS:,} steps opens"), (many, f"{RUNS:,} runs list")):
        watch, page = start(lockstep, "watch", folder, "--live", "0")
        begin = time.monotonic()
        urllib.request.urlopen(page, timeout=120).read()
        first = time.monotonic() - begin
        begin = time.monotonic()
        urllib.request.urlopen(page, timeout=120).read()
        again = time.monotonic() - begin
        print(f"{what} in {first:.2f} s, again in {again:.3f} s (limit 1 s); {end(watch):.2f} s of processor time, load {os.getloadavg()[0]:.0f}",
              flush=True)
        good = good and first < 1
    return good


if __name__ == "__main__":
    program = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else "build/lockstep")
    folder = tempfile.mkdtemp(prefix="lockstep-live-")
    try:
        good = opens(program, folder)
        good = cost(program, folder) and good
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    sys.exit(0 if good or QUICK else 1)
