"""What docs/runbooks.md says of faults, each brought about by its commands."""

import json
import os
import pathlib
import shutil
import socket
import subprocess
import tempfile
import threading
import time
import unittest
import urllib.error
import urllib.request

from broker import BINARY, PATIENCE, ROOT, Broker, free_ports
from paho_client import MQTT_3_1_1, Client

NATS = ROOT / "target" / "servers" / "bin" / "nats-server"


def get(broker, path):
    """The status and the text of an answer of the admin interface."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{broker.admin_port}{path}", timeout=PATIENCE) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def metric(broker, name):
    """The value of a sample."""
    lines = get(broker, "/metrics")[1].splitlines()
    return next(float(line.removeprefix(name)) for line in lines if line.startswith(f"{name} "))


def tidegate(broker, *arguments):
    command = [BINARY, *arguments, "--admin", f"127.0.0.1:{broker.admin_port}"]
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)


def issue_expired(folder):
    """A certificate of one day in 2020, signed by itself."""
    (folder / "ca.conf").write_text(f"[ca]\ndefault_ca = own\n[own]\ndatabase = {folder}/index\nnew_certs_dir = {folder}\n"
                                    "rand_serial = yes\ndefault_md = sha256\nx509_extensions = names\npolicy = any\n[any]\ncommonName = supplied\n[names]\nsubjectAltName = DNS:localhost\n")
    (folder / "index").touch()
    for command in (
        f"openssl req -new -newkey rsa:2048 -nodes -keyout {folder}/key.pem -out {folder}/request.pem -subj /CN=localhost",
        f"openssl ca -batch -selfsign -config {folder}/ca.conf -keyfile {folder}/key.pem -in {folder}/request.pem "
        f"-out {folder}/certificate.pem -startdate 20200101000000Z -enddate 20200102000000Z -notext",
    ):
        subprocess.run(command.split(), check=True, capture_output=True)


class Runbook(unittest.TestCase):
    def start(self, *arguments):
        broker = Broker(*arguments)
        self.addCleanup(broker.close)
        return broker

    def until(self, holds, what):
        """Asks until it holds; the broker has no event for it that a test could wait for."""
        end = time.monotonic() + PATIENCE
        while not holds():
            self.assertLess(time.monotonic(), end, what)
            time.sleep(0.05)


class Runbooks(Runbook):
    @unittest.skipUnless(os.geteuid() == 0, "mounts a file system in memory")
    def test_disk_full(self):
        folder = pathlib.Path(tempfile.mkdtemp(prefix="tidegate-runbook-"))
        self.addCleanup(shutil.rmtree, folder, ignore_errors=True)
        if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=192m", "none", folder]).returncode:
            self.skipTest("nothing can be mounted here")
        self.addCleanup(subprocess.run, ["umount", "-l", folder])
        broker = self.start("--data", str(folder / "data"))
        keeper = Client(broker, "keeper", clean=False, expiry=3600)
        keeper.subscribe("gate", qos=1)
        with open(folder / "fill", "wb") as file:
            try:
                while True:
                    file.write(bytes(1 << 20))
                    file.flush()
            except OSError:
                pass
        self.until(lambda: get(broker, "/readyz")[0] == 503, "the broker says ready on a full disk")
        self.assertEqual(metric(broker, 'tidegate_store_state{state="full"}'), 1)
        refused = subprocess.run([BINARY, "pub", "-p", str(broker.port), "-V", "5", "-t", "gate", "-q", "1", "-m", "open"],
                                 capture_output=True, text=True, timeout=PATIENCE)
        self.assertIn("quota exceeded", refused.stderr)
        (folder / "fill").unlink()
        self.until(lambda: get(broker, "/readyz")[0] == 200, "the broker is not ready again")
        sender = Client(broker)
        self.addCleanup(sender.leave)
        sender.publish("gate", "open", qos=1)
        self.assertEqual(keeper.payloads(), ["open"])
        keeper.leave()

    def test_slow_client(self):
        broker = self.start("--set", "queue.max_messages=10", "--set", "limits.max_inflight=1")
        slow = Client(broker, "slow", clean=False, expiry=3600)
        slow.subscribe("gate", qos=1)
        slow.vanish()
        sender = Client(broker)
        self.addCleanup(sender.leave)
        for number in range(20):
            sender.publish("gate", str(number), qos=1)
        self.assertEqual(metric(broker, 'mqtt_messages_dropped_total{reason="queue_full_drop_newest"}'), 10)
        told = tidegate(broker, "why", "client", "slow")
        self.assertIn("queue", told.stdout)

    def test_memory_ceiling(self):
        broker = self.start("--set", "node.shards=1", "--set", "limits.memory_ceiling=2MiB",
                            "--set", "queue.max_messages=100000", "--set", "queue.max_bytes=16MiB")
        away = Client(broker, "away", clean=False, expiry=3600)
        away.subscribe("gate", qos=1)
        away.vanish()
        reader = Client(broker)
        self.addCleanup(reader.leave)
        sender = Client(broker)
        self.addCleanup(sender.leave)
        sent = [sender.paho.publish("gate", bytes(2048), qos=1) for _ in range(1200)]
        sent[-1].wait_for_publish(PATIENCE)
        self.assertGreater(metric(broker, 'mqtt_messages_dropped_total{reason="memory_ceiling"}'), 0)
        self.assertEqual(reader.subscribe("other", qos=1), [0x97])
        told = tidegate(broker, "clients")
        self.assertIn("away", told.stdout)
        command = [BINARY, "pub", "-p", str(broker.port), "-i", "away", "-t", "gone", "-m", ""]
        subprocess.run(command, check=True, timeout=PATIENCE)
        self.assertEqual(reader.subscribe("other", qos=1), [1])
        self.assertEqual(tidegate(broker, "ban", "add", "client", "away").returncode, 0)
        self.assertNotEqual(subprocess.run(command, capture_output=True, timeout=PATIENCE).returncode, 0)

    def test_certificate_expired(self):
        with tempfile.TemporaryDirectory(prefix="tidegate-runbook-") as name:
            folder = pathlib.Path(name)
            issue_expired(folder)
            broker = self.start("--listen", "mqtts://127.0.0.1:0", "--set", f"listener.3.certificate={folder}/certificate.pem",
                                "--set", f"listener.3.key={folder}/key.pem")
            self.assertTrue(broker.errors.wait(lambda line: "expired" in line))


class Wire:
    """A client of MQTT 3.1.1 by its bytes: each packet that comes is seen."""

    def __init__(self, broker, client_id):
        self.stream = socket.create_connection(("127.0.0.1", broker.port), PATIENCE)
        body = b"\x00\x04MQTT\x04\x00\x00\x3c\x00" + bytes([len(client_id)]) + client_id
        self.send(b"\x10" + bytes([len(body)]) + body)
        answer = self.read_packet()
        assert answer == b"\x20\x02\x00\x00", f"the connection was refused: {answer}"

    def send(self, data):
        self.stream.sendall(data)

    def read_packet(self):
        """The next packet; none here has 128 bytes or more."""
        head = self._read(2)
        return head + self._read(head[1])

    def _read(self, length):
        data = b""
        while len(data) < length:
            more = self.stream.recv(length - len(data))
            assert more, "the broker closed the connection"
            data += more
        return data

    def close(self):
        self.stream.close()


class Cut:
    """A way to a server that can be cut: connections end, and new ones are refused until it is whole again."""

    def __init__(self, port):
        self.server_port = port
        self.port = free_ports(1)[0]
        self.streams = []
        self.mend()

    def mend(self):
        self.listener = socket.create_server(("127.0.0.1", self.port))
        threading.Thread(target=self._accept, args=(self.listener,), daemon=True).start()

    def cut(self):
        if self.listener.fileno() < 0:
            return
        # Wakes the thread that accepts, which `close` alone does not.
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        for stream in self.streams:
            try:
                stream.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            stream.close()
        self.streams = []

    def _accept(self, listener):
        while True:
            try:
                near, _ = listener.accept()
            except OSError:
                return
            try:
                far = socket.create_connection(("127.0.0.1", self.server_port))
            except OSError:
                near.close()
                continue
            self.streams += [near, far]
            for one, other in ((near, far), (far, near)):
                threading.Thread(target=self._carry, args=(one, other), daemon=True).start()

    @staticmethod
    def _carry(one, other):
        try:
            while data := one.recv(65536):
                other.sendall(data)
            other.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass


@unittest.skipUnless(NATS.exists(), "faults of clusters were NOT tried: ./test e2e fetches the NATS server")
class ClusterRunbooks(Runbook):
    """Three nodes on NATS. The third one reaches it over a way that can be cut."""

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="tidegate-runbook-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.bus_port = free_ports(1)[0]
        self.start_bus()
        self.way = Cut(self.bus_port)
        self.addCleanup(self.way.cut)
        self.nodes = [self.start_node(name) for name in "abc"]
        self.until(self.rests, "the cluster does not come to rest")

    def start_bus(self):
        command = [NATS, "-js", "-sd", self.folder / "bus", "-a", "127.0.0.1", "-p", str(self.bus_port)]
        self.bus = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(self.bus.wait, PATIENCE)
        self.addCleanup(self.bus.kill)
        self.until(self.bus_answers, "the bus does not start")

    def bus_answers(self):
        try:
            socket.create_connection(("127.0.0.1", self.bus_port)).close()
        except ConnectionRefusedError:
            return False
        return True

    def start_node(self, name):
        port = self.way.port if name == "c" else self.bus_port
        return self.start("--node", name, "--bus", f"nats://127.0.0.1:{port}", "--data", str(self.folder / name),
                          "--set", "cluster.lease=6s", "--set", "cluster.settle=0", "--set", "mirror.max_bytes=256MiB")

    def rests(self):
        """Whether all nodes are ready, and know that each serves its share: a ready node may still wait for partitions."""
        if any(get(node, "/readyz")[0] != 200 for node in self.nodes):
            return False
        views = [json.loads(get(node, "/api/v1/cluster")[1]) for node in self.nodes]
        agree = all(not view["moves"] and view["epoch_in_force"] == views[0]["epoch"] for view in views)
        served = [view["served"] for view in views]
        return agree and sum(served) == 1024 and min(served) == 1024 // len(served)

    def connect(self, kind, *arguments, **named):
        """A client. It is refused while its partition moves or no node serves it, and connects again as clients do."""
        end = time.monotonic() + PATIENCE
        while True:
            try:
                return kind(*arguments, **named)
            except AssertionError:
                self.assertLess(time.monotonic(), end, f"{arguments} is not served")
                time.sleep(0.05)

    def client_away(self, node):
        """Names of sessions, some of which are at home at each node, and a message that each is owed."""
        names = [f"away-{number}" for number in range(12)]
        for name in names:
            client = self.connect(Client, node, name, clean=False, expiry=3600)
            client.subscribe("gate", qos=1)
            client.leave()
        sender = self.connect(Client, node)
        sender.publish("gate", "open", qos=1)
        sender.leave()
        return names

    def fetch(self, node, names):
        """Each session gets its message once another node serves it; until then its client is refused."""
        for name in names:
            client = self.connect(Client, node, name, clean=False, expiry=3600)
            self.assertEqual(client.payloads(), ["open"])
            client.leave()

    def test_node_lost(self):
        first, _, lost = self.nodes
        names = self.client_away(first)
        before = metric(first, "tidegate_cluster_failovers_total")
        lost.kill()
        self.until(lambda: metric(first, "tidegate_cluster_nodes") == 2, "the lost node still counts")
        self.fetch(first, names)
        failovers = sum(metric(node, "tidegate_cluster_failovers_total") for node in self.nodes[:2])
        self.assertGreater(failovers, before)
        back = self.start_node("c")
        self.until(lambda: metric(first, "tidegate_cluster_nodes") == 3, "the node does not come back")
        self.until(lambda: get(back, "/readyz")[0] == 200, "the node that came back does not serve")

    def test_bus_lost(self):
        first = self.nodes[0]
        client = self.connect(Client, first, "steady", version=MQTT_3_1_1, clean=False)
        self.addCleanup(client.leave)
        client.subscribe("gate", qos=1)
        sender = self.connect(Wire, first, b"sender")
        self.addCleanup(sender.close)
        self.bus.kill()
        for node in self.nodes:
            self.until(lambda node=node: get(node, "/readyz")[0] == 503, "a node says ready without its bus")
            self.assertEqual(metric(node, "tidegate_cluster_bus_connected"), 0)
        self.assertIn("bus is away", get(first, "/readyz")[1])
        # A wrong PUBACK would come before the PINGRESP.
        sender.send(b"\x32\x0c\x00\x04gate\x00\x01open" + b"\xc0\x00")
        self.assertEqual(sender.read_packet(), b"\xd0\x00")
        self.start_bus()
        self.assertEqual(sender.read_packet(), b"\x40\x02\x00\x01")
        self.assertEqual(client.payloads(), ["open"])
        for node in self.nodes:
            self.until(lambda node=node: get(node, "/readyz")[0] == 200, "a node is not ready again")

    def test_network_split(self):
        first, _, lonely = self.nodes
        names = self.client_away(lonely)
        sender = self.connect(Client, lonely, "sender")
        self.way.cut()
        self.until(lambda: get(lonely, "/readyz")[0] == 503, "a node without its bus says ready")
        self.until(lambda: metric(first, "tidegate_cluster_nodes") == 2, "the lonely node still counts")
        sent = sender.paho.publish("gate", "shut", qos=1)
        self.fetch(first, names)
        self.assertFalse(sent.is_published())
        self.way.mend()
        self.assertEqual(lonely.process.wait(PATIENCE), 1)
        self.start_node("c")
        self.until(lambda: metric(first, "tidegate_cluster_nodes") == 3, "the node does not come back")


if __name__ == "__main__":
    unittest.main()
