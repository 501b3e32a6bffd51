"""A bridge of this broker to a Mosquitto and to a second broker of its own kind."""

import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

from broker import BINARY, MOSQUITTO, PATIENCE, Broker, Lines, free_ports, mosquitto_sub

SERVER = shutil.which("mosquitto") or shutil.which("mosquitto", path="/usr/sbin:/usr/local/sbin")
STATE = "$SYS/broker/connection/cloud/state"


class Mosquitto:
    """The far broker; it may be away for a while, and remembers."""

    def __init__(self, test):
        folder = tempfile.TemporaryDirectory(prefix="tidegate-e2e-")
        test.addCleanup(folder.cleanup)
        self.port = free_ports(1)[0]
        self.config = pathlib.Path(folder.name) / "mosquitto.conf"
        self.config.write_text(
            f"listener {self.port} 127.0.0.1\nallow_anonymous true\npersistence true\npersistence_location {folder.name}/\n"
            "max_queued_messages 0\n",
            encoding="utf-8",
        )
        pathlib.Path(folder.name).chmod(0o777)
        self.process = None
        test.addCleanup(self.stop)

    def start(self):
        self.process = subprocess.Popen([SERVER, "-v", "-c", self.config], stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        output = Lines(self.process.stderr)
        output.wait(lambda line: line.endswith("running"))

    def stop(self):
        if self.process:
            self.process.terminate()
            self.process.wait(PATIENCE)
            self.process = None


def bridged(test, far_port, topics, *arguments, scheme="mqtt", more=""):
    """A broker with a bridge to that port."""
    folder = tempfile.TemporaryDirectory(prefix="tidegate-e2e-")
    test.addCleanup(folder.cleanup)
    config = pathlib.Path(folder.name) / "tidegate.toml"
    lines = ", ".join(f"'{line}'" for line in topics)
    config.write_text(
        f'[[bridge]]\nname = "cloud"\nbroker = "{scheme}://127.0.0.1:{far_port}"\nclient_id = "edge"\ntopics = [{lines}]\n{more}',
        encoding="utf-8",
    )
    broker = Broker("--config", str(config), *arguments)
    test.addCleanup(broker.close)
    return broker


class Clients(unittest.TestCase):
    def subscribe(self, port, *flags):
        return mosquitto_sub(self, port, *flags)

    @staticmethod
    def publish(port, topic, payload, *flags):
        command = ["mosquitto_pub", "-p", str(port), "-q", "1", "-t", topic, "-m", payload, *flags]
        subprocess.run(command, check=True, timeout=PATIENCE)

    @staticmethod
    def publish_lines(port, topic, lines, qos):
        command = ["mosquitto_pub", "-p", str(port), "-q", str(qos), "-t", topic, "-l"]
        subprocess.run(command, input="\n".join(lines) + "\n", text=True, check=True, timeout=PATIENCE)

    def wait_until_reached(self, broker):
        self.subscribe(broker.port, "-t", STATE).wait(lambda line: line == f"{STATE} 1")


@unittest.skipIf(MOSQUITTO or not SERVER, "a bridge from ours to Mosquitto")
class ToMosquitto(Clients):
    def setUp(self):
        self.far = Mosquitto(self)
        self.far.start()

    def both_ways(self, more):
        broker = bridged(self, self.far.port, ["plant/# both 1", "name/# out 1 here/ there/"], more=more)
        here = self.subscribe(broker.port, "-t", "plant/#")
        there = self.subscribe(self.far.port, "-t", "plant/#", "-t", "there/#")
        self.wait_until_reached(broker)
        self.publish(broker.port, "plant/a", "up")
        self.publish(broker.port, "here/name/b", "renamed")
        there.wait(lambda line: line == "plant/a up")
        there.wait(lambda line: line == "there/name/b renamed")
        self.publish(self.far.port, "plant/c", "down", "-r")
        here.wait(lambda line: line == "plant/c down")
        for port in (self.far.port, broker.port):
            self.publish(port, "plant/last", str(port))
        for output in (here, there):
            output.wait(lambda line: line.startswith("plant/last"), 2)
            carried = sorted(line for line in output.lines if line.startswith("plant/"))
            expected = ["plant/a up", "plant/c down", *sorted(f"plant/last {port}" for port in (self.far.port, broker.port))]
            self.assertEqual(carried, expected, "each once: nothing went round")
        self.subscribe(broker.port, "-t", "plant/c").wait(lambda line: line == "plant/c down")

    def test_messages_cross_once_in_both_directions_and_stay_retained(self):
        self.both_ways("")

    def test_so_they_do_with_the_version_before(self):
        self.both_ways('protocol = "3.1.1"\n')

    def test_what_is_published_while_the_other_broker_is_away_arrives_once_it_is_back(self):
        for qos in (1, 2):
            with self.subTest(qos=qos):
                broker = bridged(self, self.far.port, [f"plant/# out {qos}"])
                state = self.subscribe(broker.port, "-t", STATE)
                state.wait(lambda line: line == f"{STATE} 1")
                # It comes back by itself, to a session that has lasted.
                there = self.subscribe(self.far.port, "-t", "plant/#", "-q", "2", "-i", f"watcher-{qos}", "-c")
                self.far.stop()
                state.wait(lambda line: line == f"{STATE} 0")
                lines = [f"{qos}-{number}" for number in range(500)]
                self.publish_lines(broker.port, "plant/x", lines, qos)
                self.far.start()
                there.wait(lambda line: line == f"plant/x {lines[-1]}")
                came = [line.removeprefix("plant/x ") for line in there.lines if line.startswith("plant/x ")]
                # The connection was lost with nothing under way, so nothing is repeated.
                self.assertEqual(came, lines)
                self.assertEqual(broker.terminate(), 0)


@unittest.skipIf(MOSQUITTO, "a bridge between two of ours")
class ToItsOwnKind(Clients):
    def test_a_bridge_over_tls_shows_its_certificate_and_its_password(self):
        folder = tempfile.TemporaryDirectory(prefix="tidegate-e2e-")
        self.addCleanup(folder.cleanup)
        place = pathlib.Path(folder.name)
        subprocess.run([BINARY, "cert", "dev", "--out", place], check=True, capture_output=True, timeout=PATIENCE)
        (place / "password").write_text("secret\n", encoding="utf-8")
        subprocess.run([BINARY, "passwd", "-b", "-c", place / "users", "plant", "secret"], check=True, capture_output=True, timeout=PATIENCE)
        port = free_ports(1)[0]
        config = place / "far.toml"
        config.write_text(
            f'[[listener]]\naddress = "127.0.0.1:0"\nallow_anonymous = true\n[[listener]]\naddress = "mqtts://127.0.0.1:{port}"\n'
            f'certificate = "{place}/server.pem"\nkey = "{place}/server.key"\nclient_ca = "{place}/ca.pem"\n'
            f'client_certificate = "required"\n[[auth]]\nkind = "password-file"\nfile = "{place}/users"\n[access]\ndefault = "allow"\n',
            encoding="utf-8",
        )
        command = [BINARY, "run", "--config", config, "--admin", "off"]
        far = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.addCleanup(far.wait, PATIENCE)
        self.addCleanup(far.terminate)
        ready = Lines(far.stdout).wait(lambda line: " ready: " in line)[0]
        plain = int(re.search(r"mqtt://127\.0\.0\.1:(\d+)", ready)[1])
        more = (
            f'username = "plant"\npassword_file = "{place}/password"\nca = "{place}/ca.pem"\n'
            f'certificate = "{place}/client.pem"\nkey = "{place}/client.key"\n'
        )
        near = bridged(self, port, ["t out 1"], scheme="mqtts", more=more)
        there = self.subscribe(plain, "-t", "t")
        self.wait_until_reached(near)
        self.publish(near.port, "t", "over TLS")
        there.wait(lambda line: line == "t over TLS")

    def test_nothing_acknowledged_is_lost_when_the_broker_with_the_bridge_is_killed(self):
        data = tempfile.TemporaryDirectory(prefix="tidegate-e2e-")
        self.addCleanup(data.cleanup)
        far = Broker()
        self.addCleanup(far.close)
        there = self.subscribe(far.port, "-t", "t", "-q", "2")
        near = bridged(self, far.port, ["t out 2"], "--data", data.name)
        self.wait_until_reached(near)
        lines = [str(number) for number in range(2_000)]
        self.publish_lines(near.port, "t", lines, 2)
        near.kill()
        bridged(self, far.port, ["t out 2"], "--data", data.name)
        there.wait(lambda line: line == f"t {lines[-1]}")
        # What was on its way in the moment of the kill may come twice; nothing is missing.
        came = [line.removeprefix("t ") for line in there.lines if line.startswith("t ")]
        self.assertEqual(sorted(set(came), key=int), lines)


if __name__ == "__main__":
    unittest.main()
