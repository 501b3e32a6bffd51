"""CoAP over DTLS: libcoap's clients with OpenSSL and with GnuTLS publish, read and observe with pre-shared keys.

The broker needs the feature `dtls`, with which `./test` builds it.
"""

import pathlib
import re
import signal
import subprocess
import tempfile
import unittest

from broker import BINARY, MOSQUITTO, PATIENCE, Lines

CLIENTS = ("coap-client-openssl", "coap-client-gnutls")

CONFIG = """
[[listener]]
name = "sensors"
address = "coaps://127.0.0.1:0"
psk_file = "FOLDER/keys"
[access]
rules_file = "FOLDER/rules.toml"
"""

RULES = """
[[rule]]
allow = true
users = ["pump-7"]
topics = ["plant/#"]
[[rule]]
allow = true
users = ["pump-8"]
topics = ["plant/8/#"]
"""

KEYS = {"pump-7": "0123456789abcdef", "pump-8": "fedcba9876543210"}


def line_of(identity):
    return f"{identity}:{KEYS[identity].encode().hex()}\n"


@unittest.skipIf(MOSQUITTO, "Mosquitto has no CoAP")
class CoapOverDtls(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="tidegate-e2e-")
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        self.keys = self.root / "keys"
        self.keys.write_text(line_of("pump-7"), encoding="utf-8")
        (self.root / "rules.toml").write_text(RULES, encoding="utf-8")
        config = self.root / "tidegate.toml"
        config.write_text(CONFIG.replace("FOLDER", str(self.root)), encoding="utf-8")
        command = [BINARY, "--config", config]
        self.broker = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.output = Lines(self.broker.stdout, self.broker.stderr)
        self.addCleanup(self.stop)
        ready = self.output.wait(lambda line: " ready: " in line)[0]
        self.url = re.search(r"coaps://\S+", ready)[0]

    def stop(self):
        self.broker.send_signal(signal.SIGTERM)
        self.assertEqual(self.broker.wait(PATIENCE), 0, self.output.all())

    def ask(self, client, path, *arguments, identity="pump-7", key=None, patience=PATIENCE):
        """What a client of libcoap prints."""
        command = [client, "-B", str(patience), "-u", identity, "-k", key or KEYS[identity], *arguments]
        result = subprocess.run([*command, f"{self.url}/topics/{path}"], capture_output=True, timeout=2 * PATIENCE)
        return (result.stdout + result.stderr).decode()

    def test_clients_with_keys_publish_and_read(self):
        for client in CLIENTS:
            with self.subTest(client):
                topic = f"plant/{client}"
                self.ask(client, f"{topic}?retain=true", "-m", "put", "-e", "21.5")
                self.assertIn("21.5", self.ask(client, topic, "-m", "get"))
                long = self.root / "long"
                long.write_text("x" * 5_000, encoding="utf-8")
                self.ask(client, f"{topic}/long?retain=true", "-m", "put", "-f", str(long))
                self.assertIn("x" * 5_000, self.ask(client, f"{topic}/long", "-m", "get"))

    def test_an_observer_gets_messages(self):
        command = [CLIENTS[0], "-B", str(PATIENCE), "-s", str(PATIENCE), "-w", "-u", "pump-7", "-k", KEYS["pump-7"]]
        topic = f"{self.url}/topics/plant/observed"
        self.ask(CLIENTS[1], "plant/observed?retain=true", "-m", "put", "-e", "first")
        observer = subprocess.Popen([*command, "-m", "get", topic], stdout=subprocess.PIPE, text=True)
        try:
            lines = Lines(observer.stdout)
            lines.wait(lambda line: line == "first")
            self.ask(CLIENTS[1], "plant/observed", "-m", "put", "-e", "second")
            lines.wait(lambda line: line == "second")
        finally:
            observer.kill()
            observer.wait(PATIENCE)

    def test_an_identity_has_its_rights_and_its_key(self):
        client = CLIENTS[0]
        self.keys.write_text(line_of("pump-7") + line_of("pump-8"), encoding="utf-8")
        for identity, path, allowed in (("pump-8", "plant/8/a", True), ("pump-8", "plant/7/a", False)):
            said = self.ask(client, path, "-m", "put", "-e", "1", identity=identity)
            self.assertEqual("4.03" in said, not allowed, said)
        # A user name in the query changes nothing.
        said = self.ask(client, "plant/7/a?username=pump-7", "-m", "put", "-e", "1", identity="pump-8")
        self.assertIn("4.03", said)
        stranger = self.ask(client, "plant/7/b?retain=true", "-m", "put", "-e", "1", key="0" * 16, patience=3)
        self.assertEqual(stranger.count("2.04"), 0, stranger)
        self.assertNotIn("1", self.ask(client, "plant/7/b", "-m", "get").replace("127.0.0.1", ""))


if __name__ == "__main__":
    unittest.main()
