"""What docs/runbooks.md says of faults, each brought about by its commands."""

import os
import pathlib
import shutil
import subprocess
import tempfile
import time
import unittest
import urllib.error
import urllib.request

from broker import BINARY, PATIENCE, Broker
from paho_client import Client


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


class Runbooks(unittest.TestCase):
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

    def test_certificate_expired(self):
        with tempfile.TemporaryDirectory(prefix="tidegate-runbook-") as name:
            folder = pathlib.Path(name)
            issue_expired(folder)
            broker = self.start("--listen", "mqtts://127.0.0.1:0", "--set", f"listener.3.certificate={folder}/certificate.pem",
                                "--set", f"listener.3.key={folder}/key.pem")
            self.assertTrue(broker.errors.wait(lambda line: "expired" in line))


if __name__ == "__main__":
    unittest.main()
