"""An orchestrator in front of Mosquittos: what clients see, and what is left when a broker dies."""

import json
import pathlib
import shutil
import signal
import subprocess
import tempfile
import time
import unittest
import urllib.error
import urllib.request

from broker import BINARY, MOSQUITTO, PATIENCE, Lines, free_ports

SERVER = shutil.which("mosquitto") or shutil.which("mosquitto", path="/usr/sbin:/usr/local/sbin")
CALL = {"tidegate-command": "fleet"}


class Process:
    """A server, from its start to its end."""

    def __init__(self, test, command, ready):
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.output = Lines(self.process.stdout)
        test.addCleanup(self.end)
        self.output.wait(lambda line: ready in line, 1)

    def end(self, how=signal.SIGTERM):
        if self.process.poll() is None:
            self.process.send_signal(how)
        self.process.wait(PATIENCE)


class Subscriber:
    """A mosquitto_sub that has its SUBACK."""

    def __init__(self, test, port, *flags):
        command = ["stdbuf", "-oL", "mosquitto_sub", "-d", "-p", str(port), "-F", "MESSAGE %t %q %r %p", *flags]
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
        self.output = Lines(self.process.stdout)
        test.addCleanup(self.end)
        self.output.wait(lambda line: line.startswith("Subscribed (mid"), 1)

    def messages(self, number):
        found = self.output.wait(lambda line: line.startswith("MESSAGE "), number)
        return [line.removeprefix("MESSAGE ") for line in found]

    def end(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(PATIENCE)


@unittest.skipIf(MOSQUITTO or not SERVER, "the orchestrator is ours, and its brokers are Mosquittos")
class Orchestrator(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="tidegate-e2e-")
        self.addCleanup(folder.cleanup)
        self.data = pathlib.Path(folder.name)
        self.port, self.admin, *self.ports = free_ports(4)
        self.brokers = [self.start_broker(port) for port in self.ports]
        self.start_orchestrator()

    def start_broker(self, port):
        return Process(self, [SERVER, "-v", "-p", str(port)], "running")

    def start_orchestrator(self):
        brokers = [flag for port in self.ports for flag in ("--broker", f"b{port}=mqtt://127.0.0.1:{port}")]
        self.orchestrator = Process(
            self,
            [BINARY, "orchestrator", "--listen", f"127.0.0.1:{self.port}", "--admin", f"127.0.0.1:{self.admin}",
             "--data", str(self.data / "data"), "--set", "orchestrator.reassign_after=200ms", *brokers],
            "ready:",
        )
        for _ in self.ports:
            self.orchestrator.output.wait(lambda line: "broker serving" in line, len(self.ports))

    def call(self, method, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"http://127.0.0.1:{self.admin}{path}", data=data, method=method, headers=CALL)
        with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
            return json.load(answer)

    def publish(self, topic, payload, *flags, port=None):
        command = ["mosquitto_pub", "-p", str(port or self.port), "-t", topic, "-m", payload, *flags]
        subprocess.run(command, check=True, timeout=PATIENCE)

    def subscribe(self, *flags):
        return Subscriber(self, self.port, *flags)

    def test_messages_of_every_version_and_quality_come_once_through_one_broker_each(self):
        both = self.subscribe("-V", "mqttv5", "-q", "2", "-t", "plant/#", "-t", "plant/+/level")
        old = self.subscribe("-V", "mqttv311", "-q", "1", "-t", "plant/+/level")
        expected = []
        for number in range(12):
            version, quality = ("mqttv311", "mqttv5")[number % 2], number % 3
            self.publish(f"plant/{number}/level", str(number), "-V", version, "-q", str(quality))
            expected.append(f"plant/{number}/level {quality} 0 {number}")
        self.assertCountEqual(both.messages(12), expected)
        self.assertCountEqual(old.messages(12), [line.replace(" 2 0 ", " 1 0 ") for line in expected])
        self.publish("plant/direct/level", "directly", "-q", "1", port=self.ports[0])
        self.assertEqual(both.messages(13)[-1], "plant/direct/level 1 0 directly")
        status = self.call("GET", "/api/v1/fleet")
        self.assertEqual({broker["state"] for broker in status["brokers"]}, {"serving"})
        self.assertEqual([broker["filters"] for broker in status["brokers"]], [2, 2], "each filter once at each broker")

    def test_retained_values_are_there_for_whoever_comes_later(self):
        self.publish("tank/1", "full", "-r", "-q", "1")
        self.publish("tank/2", "from before", "-r", "-q", "1", port=self.ports[1])
        late = self.subscribe("-q", "1", "-t", "tank/+")
        self.assertCountEqual(late.messages(2), ["tank/1 1 1 full", "tank/2 1 1 from before"])

    def test_a_killed_broker_loses_nothing_that_was_acknowledged(self):
        reader = self.subscribe("-q", "2", "-t", "meter/#")
        for number in range(30):
            self.publish(f"meter/{number}", str(number), "-q", str(1 + number % 2))
            if number == 10:
                self.brokers[0].end(signal.SIGKILL)
        received = reader.messages(30)
        self.assertCountEqual({line.split()[-1] for line in received}, {str(number) for number in range(30)})
        self.brokers[0] = self.start_broker(self.ports[0])
        self.orchestrator.output.wait(lambda line: "broker serving" in line, 3)

    def test_a_killed_orchestrator_still_owes_what_it_had_acknowledged(self):
        away = ["-V", "mqttv311", "-c", "-i", "away", "-q", "1", "-t", "gate/#"]
        first = self.subscribe(*away)
        self.publish("gate/0", "0", "-q", "1")
        first.messages(1)
        first.end()
        for number in range(1, 6):
            self.publish(f"gate/{number}", str(number), "-q", "1")
        self.orchestrator.end(signal.SIGKILL)
        self.start_orchestrator()
        again = self.subscribe(*away)
        self.assertEqual({line.split()[-1] for line in again.messages(5)} - {"0"}, {"1", "2", "3", "4", "5"})

    def test_a_broker_is_drained_and_removed_under_way(self):
        reader = self.subscribe("-q", "1", "-t", "x/#")
        name = f"b{self.ports[0]}"
        self.call("POST", f"/api/v1/fleet/brokers/{name}/drain")
        for number in range(10):
            self.publish(f"x/{number}", str(number), "-q", "1")
        reader.messages(10)
        deadline = time.monotonic() + PATIENCE
        while (state := self.state_of(name)) != "drained":
            self.assertEqual(state, "draining")
            self.assertLess(time.monotonic(), deadline, "it never settles what it has")
        self.call("DELETE", f"/api/v1/fleet/brokers/{name}")
        self.assertEqual(len(self.call("GET", "/api/v1/fleet")["brokers"]), 1)
        with self.assertRaises(urllib.error.HTTPError) as refused:
            self.call("DELETE", f"/api/v1/fleet/brokers/{name}")
        self.assertEqual(refused.exception.code, 409)
        refused.exception.close()

    def state_of(self, name):
        brokers = self.call("GET", "/api/v1/fleet")["brokers"]
        return next(broker["state"] for broker in brokers if broker["name"] == name)


if __name__ == "__main__":
    unittest.main()
