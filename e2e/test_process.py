"""The process itself: readiness, stopping, and saying why it cannot start."""

import socket
import subprocess
import unittest
import urllib.request

from broker import BINARY, MOSQUITTO, PATIENCE, Broker
from paho_client import MQTT_3_1_1, MQTT_5, Client


@unittest.skipIf(MOSQUITTO, "about our own process")
class Process(unittest.TestCase):
    def broker(self, *arguments):
        broker = Broker(*arguments)
        self.addCleanup(broker.close)
        return broker

    def test_termination_says_goodbye_and_exits_with_0(self):
        broker = self.broker()
        clients = [Client(broker, version=MQTT_5, transport=transport) for transport in ("tcp", "websockets", "unix")]
        old = Client(broker, version=MQTT_3_1_1)
        self.assertEqual(broker.terminate(), 0)
        for client in clients:
            code, from_server = client.end()
            self.assertEqual((code.value, from_server), (0x8B, True))
        _, from_server = old.end()
        self.assertFalse(from_server)

    def test_ready_is_one_line_on_standard_output(self):
        broker = self.broker()
        broker.terminate()
        self.assertEqual(len(broker.output.all()), 1)
        self.assertIn(str(broker.port), broker.output.all()[0])

    def test_admin_address_tells_of_health_and_metrics(self):
        broker = self.broker()
        Client(broker).leave()

        def get(path):
            with urllib.request.urlopen(f"http://127.0.0.1:{broker.admin_port}{path}", timeout=PATIENCE) as answer:
                return answer.status, answer.read().decode()

        self.assertEqual([get(path)[0] for path in ("/healthz", "/readyz")], [200, 200])
        status, metrics = get("/metrics")
        self.assertEqual(status, 200)
        self.assertIn('mqtt_connect_total{result="accepted"} 1\n', metrics)

    def test_a_port_in_use_is_named(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            address = f"127.0.0.1:{taken.getsockname()[1]}"
            command = [BINARY, "--listen", address, "--admin", "off"]
            done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn(address, done.stderr)

    def test_a_new_process_takes_the_same_port_at_once(self):
        first = self.broker()
        client = Client(first)
        self.assertEqual(first.terminate(), 0)
        client.end()
        again = subprocess.Popen([BINARY, "--listen", f"127.0.0.1:{first.port}", "--admin", "off"],
                                 stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        with again:
            self.assertIn("ready", again.stdout.readline())
            again.terminate()
            self.assertEqual(again.wait(PATIENCE), 0)


if __name__ == "__main__":
    unittest.main()
