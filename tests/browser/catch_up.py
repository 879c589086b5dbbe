#!/usr/bin/env python3
"""catch_up.py LOCKSTEP: checks that a page that reconnects gets the sections that have changed, and no others.

A reader of the stream keeps the sections as the page does. It goes away and comes back with Last-Event-ID: while
nothing happened, after more steps, after a restart of the server, and after the run went back to a checkpoint and did
steps again. Each time it then equals a freshly loaded page; sections that did not change do not come again."""
import http.client, json, os, re, shutil, signal, subprocess, sys, tempfile, time, urllib.parse

failures = []


def check(what, good, more=""):
    print(("ok   " if good else "FAIL ") + what + (f": {more}" if more and not good else ""), flush=True)
    if not good:
        failures.append(what)


class Server:
    def __init__(self, lockstep, runs, port=0):
        self.log = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen([lockstep, "watch", runs, "--live", str(port)], stdin=subprocess.DEVNULL, stdout=self.log,
                                        stderr=self.log)
        end = time.monotonic() + 60
        while time.monotonic() < end:
            self.log.seek(0)
            found = re.search(r"^page +http://127.0.0.1:(\d+)/$", self.log.read(), re.M)
            if found:
                self.port = int(found[1])
                return
            time.sleep(0.05)
        raise AssertionError("no page")

    def get(self, path):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        connection.request("GET", path)
        return connection.getresponse().read().decode()

    def end(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(60)


class Page:
    """What live.js does."""

    def __init__(self, server, query=""):
        self.query, self.id = query, None
        self.sections, self.order = Page.loaded(server, query)
        self.has = re.search(r'data-has="([0-9a-f.]*)"', server.get("/?" + query))[1]

    @staticmethod
    def loaded(server, query):
        found = re.findall(r'<section id="s-([^"]+)">\n(.*?)</section>\n', server.get("/?" + query), re.S)
        return dict(found), [name for name, _ in found]

    def listen(self, server, seconds=1.5):
        """A connection for some time; returns bytes of events, and the sections that came."""
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=seconds)
        headers = {"Last-Event-ID": self.id} if self.id else {}
        connection.request("GET", "/events?" + self.query + "&has=" + urllib.parse.quote(self.has), headers=headers)
        response, text, came = connection.getresponse(), b"", []
        end = time.monotonic() + seconds
        try:
            while time.monotonic() < end:
                piece = response.read1(1 << 20)
                if not piece:
                    break
                text += piece
        except TimeoutError:
            pass
        connection.close()
        for event in text.decode().split("\n\n")[:-1]:
            fields = dict(line.split(": ", 1) for line in event.split("\n") if ": " in line)
            if fields.get("event") != "page":
                continue
            self.id = fields["id"]
            news = json.loads(fields["data"])
            self.sections.update(news["sections"])
            self.order = news["order"]
            self.sections = {name: self.sections[name] for name in self.order}
            came += [name for name, _ in news["sections"]]
        return len(text), came

    def is_as_new(self, server):
        sections, order = Page.loaded(server, self.query)
        different = [name for name in order if self.sections.get(name) != sections[name]]
        return order == self.order and different == [], different


def main(lockstep, work):
    text = os.path.join(work, "book.txt")
    open(text, "w").write("It was the best of times, it was the worst of times. " * 400)
    runs = os.path.join(work, "runs")
    run = os.path.join(runs, "r")
    quiet = dict(check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    subprocess.run([lockstep, "train", "--model", "tiny", "--data", text, "--seq", "16", "--global-batch", "4", "--threads", "1", "--steps",
                    "30", "--out", run], **quiet)
    metrics = os.path.join(run, "metrics.jsonl")
    lines = open(metrics).read().splitlines()
    step_of = [json.loads(line)["step"] for line in lines]
    open(metrics, "w").write("".join(line + "\n" for line, step in zip(lines, step_of) if step <= 20))
    server = Server(lockstep, runs)
    try:
        page = Page(server)
        whole = sum(len(s) for s in page.sections.values())
        bytes_sent, came = page.listen(server)
        check("a page that was just loaded is sent nothing again", came == [] and bytes_sent < 100, f"{bytes_sent} bytes, {came}")
        fresh = Page(server)
        fresh.has = ""
        bytes_sent, came = fresh.listen(server)
        check("one that has nothing gets all", len(came) == len(fresh.order) and bytes_sent > whole, f"{bytes_sent} of {whole}")
        bytes_sent, came = fresh.listen(server)
        check("away while nothing happened: nothing comes", came == [] and bytes_sent < 100, f"{bytes_sent} bytes, {came}")

        open(metrics, "a").write("".join(line + "\n" for line, step in zip(lines, step_of) if step > 20))
        bytes_sent, came = fresh.listen(server, 3)
        check("after more steps it has what a new page has", *fresh.is_as_new(server))
        check("and each section came once", len(came) == len(set(came)) and "loss" in came, str(came))

        server.end()
        server = Server(lockstep, runs, server.port)
        bytes_sent, came = fresh.listen(server)
        check("after a restart of the server nothing comes again", came == [] and bytes_sent < 100, f"{bytes_sent} bytes, {came}")

        # The run goes back to step 10, and other steps are made: those of before are no longer true.
        kept = [line for line, step in zip(lines, step_of) if step <= 10]
        again = [json.dumps({**json.loads(line), "loss": json.loads(line)["loss"] + 1, "checksum": None}, separators=(",", ":"))
                 for line, step in zip(lines, step_of) if 10 < step <= 25 and '"loss"' in line]
        open(metrics, "w").write("\n".join(kept + again) + "\n")
        bytes_sent, came = fresh.listen(server, 3)
        check("after the run went back it has what a new page has", *fresh.is_as_new(server))
        check("with what did not change left alone", "loss" in came and "configuration" not in came, str(came))
    finally:
        server.end()


if __name__ == "__main__":
    program = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else "build/lockstep")
    folder = tempfile.mkdtemp(prefix="lockstep-catch-up-")
    try:
        main(program, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print(f"{len(failures)} failed")
    sys.exit(1 if failures else 0)
