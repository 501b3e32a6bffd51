"""Starts the broker under test and stops it again.

`TIDEGATE` names the binary (target/release/tidegate by default). With `E2E_BROKER=mosquitto` the same tests run against
Mosquitto, which shows whether a failure is ours or the test's.
"""

import getpass
import os
import pathlib
import re
import socket
import subprocess
import tempfile
import threading
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent
BINARY = os.environ.get("TIDEGATE", str(ROOT / "target" / "release" / "tidegate"))
MOSQUITTO = os.environ.get("E2E_BROKER") == "mosquitto"

# Seconds after which something that should have happened counts as missing. Nothing waits this long when all is well.
PATIENCE = 60
# The same for the start of a server of others: on a busy machine it takes minutes.
START_PATIENCE = 4 * PATIENCE


def free_ports(number):
    """Ports that nobody listens on, all different."""
    sockets = [socket.socket() for _ in range(number)]
    try:
        for listener in sockets:
            listener.bind(("127.0.0.1", 0))
        return [listener.getsockname()[1] for listener in sockets]
    finally:
        for listener in sockets:
            listener.close()


class Lines:
    """Collects the lines of one or several pipes while others wait for some of them."""

    def __init__(self, *pipes):
        self.lines = []
        self.threads = []
        self.open = 0
        self.changed = threading.Condition()
        for pipe in pipes:
            self.follow(pipe)

    def follow(self, pipe):
        """Collects from one more pipe, in a thread that ends with it."""
        self.open += 1
        thread = threading.Thread(target=self._collect, args=(pipe,), daemon=True)
        self.threads.append(thread)
        thread.start()
        return thread

    def _collect(self, pipe):
        for line in pipe:
            with self.changed:
                self.lines.append(line.rstrip("\n"))
                self.changed.notify_all()
        with self.changed:
            self.open -= 1
            self.changed.notify_all()
        pipe.close()

    def wait(self, wanted, number=1, patience=PATIENCE):
        """The first `number` lines that `wanted` accepts."""
        def found():
            return [line for line in self.lines if wanted(line)]

        with self.changed:
            self.changed.wait_for(lambda: len(found()) >= number or not self.open, patience)
            if len(found()) < number:
                raise AssertionError(f"{len(found())} of {number} lines came: {self.lines}")
            return found()[:number]

    def all(self):
        """Every line, once the pipes are closed."""
        for thread in self.threads:
            thread.join(PATIENCE)
        with self.changed:
            return list(self.lines)


class Broker:
    """A running broker with a TCP, a WebSocket and a Unix listener."""

    def __init__(self, *arguments):
        self.folder = tempfile.TemporaryDirectory(prefix="tidegate-e2e-")
        self.path = os.path.join(self.folder.name, "broker.socket")
        self.port, self.websocket_port, self.admin_port = free_ports(3) if MOSQUITTO else (0, 0, 0)
        command = self._mosquitto() if MOSQUITTO else self._tidegate(arguments)
        self.process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        self.output = Lines(self.process.stdout)
        self.errors = Lines(self.process.stderr)
        try:
            self._wait_until_ready()
        except AssertionError:
            self.close()
            raise AssertionError(f"{command[0]} did not become ready: {self.errors.all()}") from None
        self.url = f"mqtt://127.0.0.1:{self.port}"
        self.websocket_url = f"ws://127.0.0.1:{self.websocket_port}/mqtt"

    def _tidegate(self, arguments):
        """Lets the system choose the ports. Two shards, so that messages cross from one to the other on any machine."""
        listeners = ("127.0.0.1:0", "ws://127.0.0.1:0/mqtt", f"unix:{self.path}")
        options = [part for listener in listeners for part in ("--listen", listener)]
        return [BINARY, *options, "--admin", "127.0.0.1:0", "--shards", "2", *arguments]

    def _mosquitto(self):
        configuration = os.path.join(self.folder.name, "mosquitto.conf")
        pathlib.Path(configuration).write_text(
            f"listener {self.port} 127.0.0.1\nlistener {self.websocket_port} 127.0.0.1\nprotocol websockets\n"
            f"listener 0 {self.path}\nallow_anonymous true\nuser {getpass.getuser()}\nmax_queued_messages 0\n",
            encoding="utf-8",
        )
        return ["/usr/sbin/mosquitto", "-v", "-c", configuration]

    def _wait_until_ready(self):
        if MOSQUITTO:
            self.errors.wait(lambda line: line.endswith("running"))
            return
        ready = self.output.wait(lambda line: " ready: " in line)[0]
        self.port = int(re.search(r"mqtt://127\.0\.0\.1:(\d+)", ready)[1])
        self.websocket_port = int(re.search(r"ws://127\.0\.0\.1:(\d+)/mqtt", ready)[1])
        admin = re.search(r"admin=http://127\.0\.0\.1:(\d+)", ready)
        # A lean program has no admin listener.
        self.admin_port = int(admin[1]) if admin else 0

    def terminate(self):
        """Asks for a graceful stop and gives the exit code."""
        self.process.terminate()
        return self.process.wait(PATIENCE)

    def kill(self):
        """Ends the process, whatever state it is in."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait(PATIENCE)

    def close(self):
        """Ends the process and removes what it left."""
        self.kill()
        self.output.all()
        self.errors.all()
        self.folder.cleanup()


class BrokerTest(unittest.TestCase):
    """A test case whose tests share one broker; each uses topics and client ids of its own."""

    @classmethod
    def setUpClass(cls):
        cls.broker = Broker()

    @classmethod
    def tearDownClass(cls):
        if not MOSQUITTO:
            code = cls.broker.process.poll()
            assert code is None, f"the broker ended during the tests with code {code}: {cls.broker.errors.all()}"
        cls.broker.close()

    def name(self, suffix=""):
        """A name that no other test uses, fit for a topic or a client id."""
        return self.id().rsplit(".", 1)[-1] + suffix


class Mosquitto:
    """A Mosquitto with this configuration beside the broker under test."""

    # It listens on TCP alone.
    websocket_port, path = 0, ""

    def __init__(self, folder, configuration):
        self.port = free_ports(1)[0]
        file = folder / "mosquitto.conf"
        file.write_text(f"listener {self.port} 127.0.0.1\nuser root\n{configuration}", encoding="utf-8")
        self.process = subprocess.Popen(["/usr/sbin/mosquitto", "-v", "-c", file], stderr=subprocess.PIPE, text=True)
        self.lines = Lines(self.process.stderr)
        self.lines.wait(lambda line: line.endswith("running"))

    def stop(self):
        """Has it write its state and end."""
        self.process.terminate()
        self.process.wait(PATIENCE)
        self.lines.all()

    def close(self):
        """Ends it, whatever state it is in."""
        self.process.kill()
        self.process.wait(PATIENCE)
        self.lines.all()


def mosquitto_sub(test, port, *flags):
    """The output of a `mosquitto_sub` that has subscribed and ends with the test."""
    command = ["stdbuf", "-oL", "mosquitto_sub", "-d", "-p", str(port), "-v", *flags]
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
    test.addCleanup(process.wait, PATIENCE)
    # After SIGTERM it may wait for ever in its own handler.
    test.addCleanup(process.kill)
    output = Lines(process.stdout)
    output.wait(lambda line: line.startswith("Subscribed (mid"))
    return output
