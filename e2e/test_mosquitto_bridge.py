"""A Mosquitto beside machines that bridges to this broker, with the settings that its bridges have unless told otherwise."""

import pathlib
import shutil
import subprocess
import tempfile
import unittest

from broker import MOSQUITTO, PATIENCE, Broker, free_ports, mosquitto_sub

SERVER = shutil.which("mosquitto") or shutil.which("mosquitto", path="/usr/sbin:/usr/local/sbin")


@unittest.skipIf(MOSQUITTO or not SERVER, "a bridge from Mosquitto to ours")
class Bridge(unittest.TestCase):
    def setUp(self):
        self.broker = Broker()
        self.addCleanup(self.broker.close)
        folder = tempfile.TemporaryDirectory(prefix="tidegate-e2e-")
        self.addCleanup(folder.cleanup)
        self.edge = free_ports(1)[0]
        config = pathlib.Path(folder.name) / "mosquitto.conf"
        config.write_text(
            f"listener {self.edge} 127.0.0.1\nallow_anonymous true\nconnection cloud\nremote_clientid edge.cloud\n"
            f"address 127.0.0.1:{self.broker.port}\ntopic plant/# both 1\n",
            encoding="utf-8",
        )
        self.state = self.subscribe(self.broker.port, "-t", "$SYS/broker/connection/+/state")
        self.bridge = subprocess.Popen([SERVER, "-c", config], stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(self.stop)
        # Both brokers are told of the bridge; by the far one's word it has come in there.
        self.state.wait(lambda line: line == "$SYS/broker/connection/edge.cloud/state 1")

    def stop(self):
        if self.bridge.poll() is None:
            self.bridge.kill()
        self.bridge.wait(PATIENCE)

    def subscribe(self, port, *flags):
        return mosquitto_sub(self, port, *flags)

    @staticmethod
    def publish(port, topic, payload, *flags):
        command = ["mosquitto_pub", "-p", str(port), "-q", "1", "-t", topic, "-m", payload, *flags]
        subprocess.run(command, check=True, timeout=PATIENCE)

    def test_messages_cross_in_both_directions_once_and_the_will_tells_of_the_end(self):
        here = self.subscribe(self.broker.port, "-t", "plant/#")
        there = self.subscribe(self.edge, "-t", "plant/#")
        self.publish(self.edge, "plant/a", "up")
        here.wait(lambda line: line == "plant/a up")
        self.publish(self.broker.port, "plant/b", "down")
        there.wait(lambda line: line == "plant/b down")
        for port in (self.edge, self.broker.port):
            self.publish(port, "plant/last", str(port))
        for output in (here, there):
            output.wait(lambda line: line.startswith("plant/last"), 2)
        expected = sorted(["plant/a up", "plant/b down", f"plant/last {self.edge}", f"plant/last {self.broker.port}"])
        for output in (here, there):
            self.assertEqual(sorted(line for line in output.lines if line.startswith("plant/")), expected)
        self.stop()
        self.state.wait(lambda line: line == "$SYS/broker/connection/edge.cloud/state 0")

    def test_what_is_retained_is_retained_on_the_other_side(self):
        there = self.subscribe(self.edge, "-t", "plant/#")
        self.publish(self.broker.port, "plant/kept", "value", "-r")
        there.wait(lambda line: line == "plant/kept value")
        late = self.subscribe(self.edge, "-t", "plant/kept")
        late.wait(lambda line: line == "plant/kept value")


if __name__ == "__main__":
    unittest.main()
