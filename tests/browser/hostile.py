#!/usr/bin/env python3
"""hostile.py LOCKSTEP: attacks the live page: slow headers, more connections than allowed, endless headers, path tricks,
wrong tokens, requests of other pages. The page keeps working, and reveals nothing."""
import os, re, shutil, socket, subprocess, sys, tempfile, time

failures = []


def check(what, good, more=""):
    print(("ok   " if good else "FAIL ") + what + (f": {more}" if more and not good else ""), flush=True)
    if not good:
        failures.append(what)


def ask(port, text, seconds=20):
    """What comes back until the server ends the connection, or enough of it has come."""
    try:
        s = socket.create_connection(("127.0.0.1", port), seconds)
    except OSError:
        return b""
    with s:
        s.settimeout(seconds)
        try:
            s.sendall(text)
        except OSError:
            pass
        data = b""
        try:
            while True:
                piece = s.recv(65536)
                if not piece:
                    break
                data += piece
                head, _, body = data.partition(b"\r\n\r\n")
                length = re.search(rb"(?i)content-length: (\d+)", head)
                if length and len(body) >= int(length[1]):
                    break
        except OSError:
            pass
        return data


def get(port, path="/", host=None, more="", method="GET"):
    return ask(port, f"{method} {path} HTTP/1.1\r\nHost: {host or f'127.0.0.1:{port}'}\r\n{more}Connection: close\r\n\r\n".encode())


def code(answer):
    return int(answer.split()[1]) if answer.startswith(b"HTTP/1.") else 0


def serve(lockstep, runs, where):
    log = tempfile.TemporaryFile("w+")
    process = subprocess.Popen([lockstep, "watch", runs, "--live", where], stdout=log, stderr=log, stdin=subprocess.DEVNULL)
    end = time.monotonic() + 60
    while time.monotonic() < end:
        log.seek(0)
        found = re.search(r"^page +http://\S+:(\d+)/(?:\?token=(\w+))?$", log.read(), re.M)
        if found:
            return process, int(found[1]), found[2]
        time.sleep(0.05)
    process.kill()
    raise SystemExit("the page did not start")


def main(lockstep, work):
    runs = os.path.join(work, "runs")
    run = os.path.join(runs, "a<script>alert(1)</script>")
    os.makedirs(run)
    open(os.path.join(run, "identity.json"), "w").write('{"hash": "0", "fields": {}}')
    open(os.path.join(run, "config.json"), "w").write('{"model": "<img src=x onerror=alert(2)>", "steps": "3"}')
    open(os.path.join(run, "metrics.jsonl"), "w").write(
        '{"step":1,"loss":5.5,"norm":1,"lr":0.1,"ms":3,"tokens_per_s":9}\n'
        '{"step":1,"sample":"</pre><script>alert(3)</script>\\u001b[31mred"}\n')
    open(os.path.join(work, "secret"), "w").write("TOPSECRET")
    process, port, _ = serve(lockstep, runs, "0")
    try:
        page = get(port)
        check("the page answers", code(page) == 200)
        check("names and samples are escaped", b"<script>alert" not in page and b"<img" not in page and b"\x1b" not in page)
        check("OpenMetrics escapes and ends", get(port, "/metrics").endswith(b"# EOF\n"))
        for method in ("POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"):
            check(f"{method} is refused", code(get(port, method=method, more="Content-Length: 0\r\n")) in (400, 405, 501))
        for path in ("/../secret", "/..%2f..%2fsecret", "/%2e%2e/secret", "//etc/passwd", "/runs/../../secret", "/live.js/../../secret", "/\\..\\secret",
                     "/events/../metrics.jsonl", "/" + "a" * 9000):
            answer = get(port, path)
            check(f"path {path[:30]} leads nowhere", code(answer) in (0, 400, 404, 413, 414, 431) and b"TOPSECRET" not in answer and b"root:" not in answer,
                  str(answer[:80]))
        check("a rebound name is refused", code(get(port, host="evil.example")) == 403)
        check("another port in Host is refused", code(get(port, host="127.0.0.1:1")) == 403)
        check("another origin is refused", code(get(port, "/metrics", more="Origin: http://evil.example\r\n")) == 403)
        check("a cross-site request is refused",
              code(get(port, "/metrics", more="Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: no-cors\r\n")) == 403)
        check("no CORS header is sent", b"access-control" not in page.lower())

        big = ask(port, b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n" + b"X: " + b"a" * (64 << 20))
        check("endless headers are refused", code(big) in (0, 400, 413, 431), str(big[:60]))
        crowd = []
        for _ in range(300):
            try:
                crowd.append(socket.create_connection(("127.0.0.1", port), 5))
            except OSError:
                break
        for s in crowd:
            try:
                s.sendall(b"GET / HTTP/1.1\r\nHo")
            except OSError:
                pass
        begin, answered = time.monotonic(), False
        while time.monotonic() - begin < 60 and not answered:  # slow ones are ended after ten seconds, however they drip
            for s in crowd:
                try:
                    s.send(b"s")
                except OSError:
                    pass
            answered = code(ask(port, f"GET / HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n\r\n".encode(), 2)) == 200
        check("slow clients are ended, and others answered", answered)
        for s in crowd:
            s.close()
        memory = int(re.search(r"VmRSS:\s+(\d+)", open(f"/proc/{process.pid}/status").read())[1])
        check("memory stays small", memory < 200 << 10, f"{memory} KiB")
        check("the page still answers", code(get(port)) == 200)
    finally:
        process.terminate()
        check("it ends when it is asked to", process.wait(30) == 0)
    process, port, token = serve(lockstep, runs, "0.0.0.0:0")
    try:
        check("another address has a token of 128 bits", token is not None and len(token) == 32)
        for path in ("/", "/metrics", "/events", "/live.js", "/?token=" + "0" * 32, "/?token=" + token[:-1], "/?token=", "/metrics?token=x"):
            answer = get(port, path)
            check(f"{path[:20]} without the token tells nothing", code(answer) == 403 and b"loss" not in answer)
        entry = get(port, "/?token=" + token)
        cookie = re.search(rb"(?i)set-cookie: (lockstep=\w+); HttpOnly; SameSite=Strict", entry)
        check("the link lets in, and the token leaves the address", code(entry) == 303 and cookie is not None)
        check("with its cookie the page answers", code(get(port, more=f"Cookie: {cookie[1].decode()}\r\n")) == 200)
        check("a scraper sends it as a bearer", code(get(port, "/metrics", more=f"Authorization: Bearer {token}\r\n")) == 200)
    finally:
        process.terminate()
        process.wait(30)


if __name__ == "__main__":
    folder = tempfile.mkdtemp(prefix="lockstep-hostile-")
    try:
        main(os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else "build/lockstep"), folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print(f"{len(failures)} failed")
    sys.exit(1 if failures else 0)
