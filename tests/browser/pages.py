#!/usr/bin/env python3
"""pages.py LOCKSTEP: the pages of the program in a real browser.

The live page updates, survives a restart of the run and overlays two runs; the report, memo and scale page work with
JavaScript off; no page asks for anything elsewhere or complains on the console; texts have a contrast of 4.5:1 and
neither touch nor leave the window at 360, 800 and 1600 px, light and dark."""
import json, os, re, shutil, signal, subprocess, sys, tempfile, time
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from chromium import Browser

HERE = os.path.dirname(os.path.abspath(__file__))
LOOK = open(os.path.join(HERE, "look.js")).read()
WIDTHS, failures = (360, 800, 1600), []


def check(what, good, more=""):
    print(("ok   " if good else "FAIL ") + what + (f": {more}" if more and not good else ""), flush=True)
    if not good:
        failures.append(what)


def looks_good(tab, url, what, wait="true", scripts=True):
    tab.call("Emulation.setScriptExecutionDisabled", value=not scripts)
    for width in WIDTHS:
        for dark in (False, True):
            tab.open(url, width, dark)
            tab.until(wait)
            found = tab.eval(LOOK)
            check(f"{what} at {width} px, {'dark' if dark else 'light'}", found == [], "; ".join(found[:6]))
    tab.call("Emulation.setScriptExecutionDisabled", value=False)


def stays_home(tab, own, what):
    asked = [e["params"]["request"]["url"] for e in tab.drain() if e.get("method") == "Network.requestWillBeSent"]
    others = [u for u in asked if not u.startswith(own) and not u.startswith(("about:", "data:"))]
    check(f"{what} asks for nothing elsewhere", asked != [] and others == [], str(others[:3]))
    bad = [e["params"] for e in tab.events
           if e.get("method") == "Runtime.exceptionThrown"
           or (e.get("method") == "Log.entryAdded" and e["params"]["entry"]["level"] == "error"
               and "net::ERR" not in e["params"]["entry"].get("text", ""))
           or (e.get("method") == "Runtime.consoleAPICalled" and e["params"]["type"] == "error")]
    check(f"{what} has no error on the console", bad == [], json.dumps(bad[:2]))
    tab.events.clear()


def losses(run):
    steps = (json.loads(line) for line in open(os.path.join(run, "metrics.jsonl")))
    return {s["step"]: s["loss"] for s in steps if "loss" in s}


# Points at a step of a chart, and returns what the tip says: its heading, and of each run name, value and colour.
POINT = """(async step => {
    const svg = [...document.querySelectorAll('#s-loss svg')].find(s => s.getBoundingClientRect().width > 0);
    svg.scrollIntoView({block: 'center'});
    const plot = svg.querySelector('g.plot');
    const [left, top, width, height] = plot.dataset.box.split(' ').map(Number), [first, last] = plot.dataset.x.split(' ').map(Number);
    const at = new DOMPoint(left + width * (step - first) / (last - first), top + height / 2).matrixTransform(svg.getScreenCTM());
    document.elementFromPoint(at.x, at.y).dispatchEvent(
        new PointerEvent('pointermove', {clientX: at.x, clientY: at.y, bubbles: true}));
    const tip = document.getElementById('tip');
    return tip.hidden ? null : [tip.firstElementChild.innerText, [...tip.querySelectorAll('div + div')].map(
        row => [row.querySelector('span').innerText, row.querySelector('b').innerText, row.querySelector('i').style.background])];
})(%g)"""


def tip_is_right(tab, url, runs):
    """Values are those that were recorded; each run has its name and colour; one that has ended has no value."""
    own = {name: losses(os.path.join(runs, name)) for name in ("first <b>&", "two")}
    for width in (360, 1600):
        tab.open(url, width)
        tab.until("document.querySelectorAll('#s-loss svg.full .plot').length >= 2")
        colours = tab.eval("""[0, 1].map(i => getComputedStyle(
            document.querySelector('#s-loss svg.full path.s' + i)).stroke)""")
        for step in (1, 10, 13.4, 20, 25, 30):
            said = tab.eval(POINT % step)
            whole = round(step)
            right = {name: format(float(f"{loss[whole]:.5g}"), "g") for name, loss in own.items() if whole in loss}
            check(f"the tip at step {step}, {width} px, names the step", said is not None and said[0] == f"step {whole}", str(said))
            found = {name: format(float(value), "g") for name, value, _ in said[1]} if said else {}
            check(f"the tip at step {step}, {width} px, has the recorded values", found == right, f"{found}, not {right}")
            used = {colour for _, _, colour in said[1]} if said else set()
            check(f"the tip at step {step}, {width} px, has the curves' colours", len(used) == len(right) and used <= set(colours),
                  f"{used}, not {colours}")


class Program:
    """A process of the program; `link` is what it prints of its page."""

    def __init__(self, *argv, cwd):
        self.log = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(argv, cwd=cwd, stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log)

    def text(self):
        self.log.seek(0)
        return self.log.read()

    def link(self):
        end = time.monotonic() + 60
        while time.monotonic() < end:
            found = re.search(r"^page +(http://\S+/)$", self.text(), re.M)
            if found:
                return found[1]
            time.sleep(0.05)
        raise AssertionError("no page: " + self.text())

    def end(self, with_signal=signal.SIGTERM):
        if self.process.poll() is None:
            self.process.send_signal(with_signal)
        self.process.wait(120)


def main(lockstep, work):
    text = os.path.join(work, "book.txt")
    open(text, "w").write("".join(f"It was the best of times, it was the worst of times {i}. " for i in range(3000)))
    runs = os.path.join(work, "runs")
    common = ["--model", "tiny", "--data", text, "--seq", "32", "--global-batch", "4", "--threads", "1", "--eval-every", "5",
              "--sample-every", "10"]

    def train(name, *more):
        return [lockstep, "train", *common, "--out", os.path.join(runs, name), *more]
    subprocess.run(train("first <b>&", "--steps", "30"), check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    subprocess.run(train("two", "--steps", "20", "--workers", "2", "--lr", "0.01", "--trace", "run"), check=True,
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    subprocess.run([lockstep, "report", os.path.join(runs, "two"), "--out", "one.html"], cwd=work, check=True, stdout=subprocess.DEVNULL)
    subprocess.run([lockstep, "report", os.path.join(runs, "first <b>&"), os.path.join(runs, "two"), "--out", "two.html"], cwd=work,
                   check=True, stdout=subprocess.DEVNULL)
    subprocess.run([lockstep, "timeline", os.path.join(runs, "two")], check=True, stdout=subprocess.DEVNULL)
    subprocess.run([lockstep, "plan", "--model", "llama-8b", "--cluster", "H100", "--gpus", "16", "--memo", "memo"], cwd=work, check=True,
                   stdout=subprocess.DEVNULL)
    browser = Browser()
    programs = []
    try:
        tab = browser.tab()
        for name in ("one.html", "two.html", "memo/memo.html"):
            url = "file://" + os.path.join(work, name)
            looks_good(tab, url, name + " without JavaScript", scripts=False)
            stays_home(tab, "file://" + work, name)
        tab.open("file://" + os.path.join(work, "one.html"))
        check("the report tells what was trained", "20" in tab.eval("document.body.innerText") and
              tab.eval("document.querySelectorAll('svg').length > 8"))

        watch = Program(lockstep, "watch", runs, "--live", "0", cwd=work)
        programs.append(watch)
        page = watch.link()
        living = Program(*train("living", "--steps", "100000", "--save-every", "20"), cwd=work)
        programs.append(living)
        live = browser.tab()
        live.open(page)
        step = "parseInt((document.querySelector('#s-top dd') || {innerText: '-1'}).innerText.replace(/,/g, ''))"
        live.until("document.body.dataset.updates > 0")
        live.until("document.querySelector('h1').innerText === 'living'", 120)
        first = live.eval(step)
        live.until(f"{step} > {first}", 120)
        check("the live page of a running job updates", True)
        check("it shows what the workers are doing", live.eval("document.querySelectorAll('#s-workers svg').length > 0"))
        living.end()
        live.until("/stopped/.test(document.querySelector('.lead').innerText)", 60)
        before = live.eval(step)
        again = Program(lockstep, "train", "--out", os.path.join(runs, "living"), "--resume", cwd=work)
        programs.append(again)
        live.until(f"/training/.test(document.querySelector('.lead').innerText) && {step} > {before}", 120)
        check("the live page survives a restart of the run", live.eval("document.getElementById('state').className") == "live")
        again.end()

        ids = live.eval("[...document.querySelectorAll('#runs tbody tr td:first-child a:first-child')].map(a => [a.innerText, a.href])")
        names = [n for n, _ in ids]
        check("run names with HTML are shown as they are", "first <b>&" in names, str(names))
        chosen = [re.search(r"run=([0-9a-f]{16})", h)[1] for n, h in ids if n in ("two", "first <b>&")]
        live.open(page + "?run=" + "&run=".join(chosen))
        live.until("document.querySelectorAll('#s-loss svg.full .plot').length >= 2")
        curves = live.eval("document.querySelector('#s-loss svg.full .plot').querySelectorAll('path.s0, path.s1').length")
        check("two runs lie over each other", curves == 2, str(curves))
        tip_is_right(live, page + "?smooth=0&run=" + "&run=".join(chosen), runs)
        live.open(page + "?filter=two")
        check("the table is filtered", live.eval("document.querySelectorAll('#runs tbody tr').length") == 1)
        live.open(page + "?sort=name&falls=0")
        order = live.eval("[...document.querySelectorAll('#runs tbody tr td:first-child a:first-child')].map(a => a.innerText)")
        check("the table is sorted", order == sorted(order), str(order))
        stays_home(live, page, "the live page")
        looks_good(live, page + "?run=" + chosen[0], "the live page",
                   "document.getElementById('state').className === 'live'")
        looks_good(live, page + "?run=" + "&run=".join(chosen), "the live page of two runs")
        stays_home(live, page, "the live page, again")
        live.open("file://" + os.path.join(runs, "two", "timeline.svg"))
        check("the timeline fits a phone", live.eval("document.documentElement.getBoundingClientRect().width <= innerWidth"))
        alone = Program(*train("shown", "--steps", "100000", "--live", "0"), cwd=work)
        programs.append(alone)
        live.open(alone.link())
        live.until("document.querySelector('h1').innerText === 'shown' && document.body.dataset.updates > 1", 120)
        check("train --live shows its run", True)
        alone.end()
    finally:
        for program in programs:
            program.end()
        browser.close()


if __name__ == "__main__":
    program = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else "build/lockstep")
    if not shutil.which("chromium"):
        print("SKIPPED: there is no chromium here (tools/setup ci installs it)")
        sys.exit(0)
    folder = tempfile.mkdtemp(prefix="lockstep-pages-")
    try:
        main(program, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print(f"{len(failures)} failed")
    sys.exit(1 if failures else 0)
