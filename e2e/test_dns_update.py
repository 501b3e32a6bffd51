"""A fleet whose names are kept by BIND."""

import pathlib
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

from broker import BINARY, PATIENCE, free_ports

KEY = 'key "fleet" { algorithm hmac-sha256; secret "c2VjcmV0IHNlY3JldCBzZWNyZXQgc2VjcmV0ISE="; };\n'
ZONE = """$TTL 60
@ IN SOA ns.example.com. root.example.com. 1 60 60 60 60
@ IN NS ns.example.com.
ns IN A 127.0.0.1
"""
SERVER = """
include "{folder}/fleet.key";
options {{
    directory "{folder}"; pid-file none; listen-on port {port} {{ 127.0.0.1; }}; listen-on-v6 {{ none; }};
    recursion no; session-keyfile "{folder}/session.key"; managed-keys-directory "{folder}";
}};
controls {{ }};
zone "example.com" {{
    type primary; file "{folder}/example.com";
    update-policy {{ grant fleet name mqtt.example.com. ANY; grant fleet wildcard *.mqtt.example.com. ANY; }};
}};
"""
FLEET = """
[fleet]
name = "updated"
interval = "1s"
[sla]
brokers = {{ min = 1, max = 1 }}
orchestrators = {{ min = 1, max = 1 }}
[dns]
name = "mqtt.example.com"
update = {{ server = "127.0.0.1:{port}", zone = "example.com", key_file = "fleet.key" }}
"""


class Updated(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        (self.port,) = free_ports(1)
        for name, text in [
            ("fleet.key", KEY),
            ("example.com", ZONE),
            ("named.conf", SERVER.format(folder=self.folder, port=self.port)),
            ("fleet.toml", FLEET.format(port=self.port)),
        ]:
            (self.folder / name).write_text(text)
        self.run_until_the_end(["named", "-g", "-c", str(self.folder / "named.conf")])

    def run_until_the_end(self, command, **more):
        process = subprocess.Popen(command, stderr=subprocess.DEVNULL, **more)
        self.addCleanup(process.wait, PATIENCE)
        self.addCleanup(process.terminate)
        return process

    def ask(self, name, kind):
        command = ["dig", "@127.0.0.1", "-p", str(self.port), "+short", "+tcp", "+time=5", "+tries=1", name, kind]
        return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE).stdout.split()

    def wait_for(self, name, addresses):
        deadline = time.monotonic() + PATIENCE
        while (answer := self.ask(name, "A")) != addresses:
            self.assertLess(time.monotonic(), deadline, f"{name}: {answer}")
            # BIND sends no event when a name changes.
            time.sleep(0.1)

    def test_the_names_of_a_fleet_outlive_its_manager(self):
        self.wait_for("ns.example.com", ["127.0.0.1"])
        state = ["--state", str(self.folder / "state")]
        fleet = self.run_until_the_end([BINARY, "up", str(self.folder / "fleet.toml"), *state], stdout=subprocess.DEVNULL)
        self.wait_for("mqtt.example.com", ["127.0.0.1"])
        priority, weight, port, target = self.ask("_mqtt._tcp.mqtt.example.com", "SRV")
        self.assertEqual((priority, weight, target), ("0", "1", "orchestrator-1.mqtt.example.com."))
        self.assertEqual(self.ask(target, "A"), ["127.0.0.1"])
        sent = subprocess.run([BINARY, "pub", "-p", port, "-t", "a", "-m", "b", "-q", "1"], timeout=PATIENCE)
        self.assertEqual(sent.returncode, 0)
        fleet.send_signal(signal.SIGTERM)
        fleet.wait(PATIENCE)
        self.assertEqual(self.ask("mqtt.example.com", "A"), ["127.0.0.1"])


if __name__ == "__main__":
    unittest.main()
