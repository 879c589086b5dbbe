#!/usr/bin/env python3
"""live.py LOCKSTEP: what looking at a run costs.

1. The processor time of the live page while one page is open and /metrics is read each second, beside that of the run.
2. How soon a run of a million steps opens, and a folder of a thousand runs lists."""
import os, re, shutil, subprocess, sys, tempfile, threading, time, urllib.request

SECONDS = float(os.environ.get("LIVE_SECONDS", "30"))


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


def cpu_of(pid):
    """Seconds on a core of a process and of all below it."""
    fields = open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()
    total = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    for child in open(f"/proc/{pid}/task/{pid}/children").read().split():
        try:
            total += cpu_of(int(child))
        except OSError:
            pass
    return total


def observe(page, ends):
    with urllib.request.urlopen(page + "events", timeout=60) as stream:
        while not ends.is_set():
            if not stream.read1(65536):
                return


def cost(lockstep, work):
    text = os.path.join(work, "book.txt")
    open(text, "w").write("".join(f"It was the best of times {i}. " for i in range(20000)))
    runs = os.path.join(work, "runs")
    run = subprocess.Popen([lockstep, "train", "--model", "tiny", "--data", text, "--steps", "1000000", "--out", os.path.join(runs, "r")],
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    watch, page = start(lockstep, "watch", runs, "--live", "0")
    ends = threading.Event()
    while not os.path.exists(os.path.join(runs, "r", "metrics.jsonl")):
        time.sleep(0.1)
    threading.Thread(target=observe, args=(page, ends), daemon=True).start()
    time.sleep(3)
    before = cpu_of(run.pid), cpu_of(watch.pid)
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        urllib.request.urlopen(page + "metrics", timeout=30).read()
        time.sleep(1)
    after = cpu_of(run.pid), cpu_of(watch.pid)
    ends.set()
    for process in (run, watch):
        process.terminate()
        process.wait(60)
    spent = after[0] - before[0], after[1] - before[1]
    share = spent[1] / spent[0]
    print(f"in {SECONDS:.0f} s the run used {spent[0]:.2f} s of processor time, the page {spent[1]:.2f} s: {100 * share:.3f} % (limit 0.2 %)", flush=True)
    return share <= 0.002


def opens(lockstep, work):
    big = os.path.join(work, "big", "million")
    os.makedirs(big)
    open(os.path.join(big, "identity.json"), "w").write('{"hash": "0", "fields": {}}')
    with open(os.path.join(big, "metrics.jsonl"), "w") as out:
        for step in range(1, 1000001):
            out.write(f'{{"step":{step},"loss":{5 / step ** 0.1:.15g},"norm":1.25,"lr":0.0006,"ms":12.5,"tokens_per_s":20480.5}}\n')
    many = os.path.join(work, "many")
    for i in range(1000):
        run = os.path.join(many, f"run-{i:04d}")
        os.makedirs(run)
        open(os.path.join(run, "config.json"), "w").write('{"model": "tiny", "steps": "300", "global-batch": "8", "seq": "64"}')
        with open(os.path.join(run, "metrics.jsonl"), "w") as out:
            for step in range(1, 301):
                out.write(f'{{"step":{step},"loss":{5 / step ** 0.1:.15g},"norm":1.25,"lr":0.0006,"ms":12.5,"tokens_per_s":20480.5}}\n')
    good = True
    for folder, what in ((os.path.join(work, "big"), "a run of 1,000,000 steps opens"), (many, "1,000 runs list")):
        watch, page = start(lockstep, "watch", folder, "--live", "0")
        begin = time.monotonic()
        urllib.request.urlopen(page, timeout=120).read()
        first = time.monotonic() - begin
        begin = time.monotonic()
        urllib.request.urlopen(page, timeout=120).read()
        print(f"{what} in {first:.2f} s, again in {time.monotonic() - begin:.3f} s (limit 1 s)", flush=True)
        good = good and first < 1
        watch.terminate()
        watch.wait(60)
    return good


if __name__ == "__main__":
    program = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else "build/lockstep")
    folder = tempfile.mkdtemp(prefix="lockstep-live-")
    try:
        good = opens(program, folder)
        good = cost(program, folder) and good
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    sys.exit(0 if good else 1)
