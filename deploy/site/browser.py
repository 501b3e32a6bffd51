"""A page of Chromium, by its debugging protocol over a pipe."""
import json
import os
import subprocess
import sys


class Browser:
    """A page of Chromium."""

    def __init__(self, profile):
        to_browser, self.requests = os.pipe()
        self.answers, from_browser = os.pipe()

        def place():
            # Chromium reads requests from file 3 and writes answers to file 4. Neither end may be in the way of the other.
            ends = [os.dup(to_browser), os.dup(from_browser)]
            for file, end in zip((3, 4), [os.dup(end) for end in ends if end > 4] or ends):
                os.dup2(end, file)

        flags = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update", "--disable-sync",
                 "--hide-scrollbars", "--no-first-run", "--remote-debugging-pipe", f"--user-data-dir={profile}"]
        self.process = subprocess.Popen(["chromium", *flags], close_fds=False, preexec_fn=place, stderr=subprocess.DEVNULL)
        # The ends of the browser: its own copies are closed when it ends.
        os.close(to_browser)
        os.close(from_browser)
        self.rest, self.number, self.session = b"", 0, None
        # Messages that answer no request.
        self.events = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]

    def call(self, method, **parameters):
        self.number += 1
        request = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            request["sessionId"] = self.session
        os.write(self.requests, json.dumps(request).encode() + b"\0")
        while True:
            message = self.read()
            if message.get("id") != self.number:
                self.events.append(message)
            elif "error" in message:
                sys.exit(f"{method}: {message['error']}")
            else:
                return message["result"]

    def read(self):
        while b"\0" not in self.rest:
            answered = os.read(self.answers, 1 << 20)
            if not answered:
                sys.exit("Chromium has ended: start it by hand to see why")
            self.rest += answered
        message, _, self.rest = self.rest.partition(b"\0")
        return json.loads(message)

    def ask(self, expression):
        """The value of an expression in the page, which may be a promise."""
        done = self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in done:
            sys.exit(f"{expression[:80]}: {done['exceptionDetails']}")
        return done["result"].get("value")

    def screen(self, width, height, phone=False):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=phone)

    def scheme(self, name):
        """`light` or `dark`."""
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": name}])

    def close(self):
        self.process.terminate()
        self.process.wait()
