"""chromium.py: a headless Chromium, driven over its debugging port with nothing but the standard library."""
import base64, json, os, select, shutil, socket, struct, subprocess, tempfile, time, urllib.request
from urllib.parse import urlparse


class Tab:
    """One page. Events that arrive meanwhile are kept in `events`."""

    def __init__(self, address):
        place = urlparse(address)
        self.socket = socket.create_connection((place.hostname, place.port))
        key = base64.b64encode(os.urandom(16)).decode()
        self.socket.sendall((f"GET {place.path} HTTP/1.1\r\nHost: {place.netloc}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                             f"Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n\r\n").encode())
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            head += self.socket.recv(1)
        self.number, self.events = 0, []

    def _read(self, count):
        data = b""
        while len(data) < count:
            piece = self.socket.recv(count - len(data))
            if not piece:
                raise EOFError("the browser has gone")
            data += piece
        return data

    def _message(self):
        data = b""
        while True:
            first, length = self._read(2)
            length &= 127
            if length == 126:
                length = struct.unpack(">H", self._read(2))[0]
            elif length == 127:
                length = struct.unpack(">Q", self._read(8))[0]
            data += self._read(length)
            if first & 128:
                return json.loads(data)

    def call(self, method, **params):
        self.number += 1
        data, mask = json.dumps({"id": self.number, "method": method, "params": params}).encode(), os.urandom(4)
        size = (bytes([128 | len(data)]) if len(data) < 126 else
                bytes([254]) + struct.pack(">H", len(data)) if len(data) < 65536 else bytes([255]) + struct.pack(">Q", len(data)))
        self.socket.sendall(b"\x81" + size + mask + bytes(c ^ mask[i % 4] for i, c in enumerate(data)))
        while True:
            message = self._message()
            if message.get("id") == self.number:
                if "error" in message:
                    raise RuntimeError(f"{method}: {message['error']}")
                return message["result"]
            self.events.append(message)

    def drain(self):
        """Events that have come, without waiting for more."""
        while select.select([self.socket], [], [], 0)[0]:
            self.events.append(self._message())
        return self.events

    def eval(self, expression):
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            raise RuntimeError(result["exceptionDetails"])
        return result["result"].get("value")

    def open(self, url, width=800, dark=False):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=width < 500)
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])
        self.call("Page.navigate", url=url)
        self.until("document.readyState === 'complete' && location.href !== 'about:blank'")

    def until(self, condition, seconds=60):
        """Waits on a condition; a busy machine makes it slow, never wrong."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            try:
                if self.eval(condition):
                    return
            except RuntimeError:
                pass
            time.sleep(0.1)
        raise AssertionError(f"{condition} did not come true within {seconds} s on {self.eval('location.href')}")


class Browser:
    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix="lockstep-browser-")
        self.process = subprocess.Popen(
            ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--remote-debugging-port=0",
             "--disable-background-networking", "--no-first-run", "--user-data-dir=" + self.folder, "about:blank"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        port = os.path.join(self.folder, "DevToolsActivePort")
        end = time.monotonic() + 120
        while not (os.path.exists(port) and open(port).read().count("\n") >= 1):
            if self.process.poll() is not None or time.monotonic() > end:
                raise RuntimeError("chromium did not start")
            time.sleep(0.05)
        self.port = int(open(port).read().split()[0])

    def tab(self):
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}/json/new?about:blank", method="PUT")
        tab = Tab(json.load(urllib.request.urlopen(request))["webSocketDebuggerUrl"])
        for domain in ("Page", "Runtime", "Network", "Log"):
            tab.call(domain + ".enable")
        return tab

    def close(self):
        self.process.terminate()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)
