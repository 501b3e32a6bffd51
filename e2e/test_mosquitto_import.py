"""The state of a Mosquitto goes on in Tidegate: `tidegate store import --mosquitto`."""

import os
import pathlib
import subprocess
import tempfile
import unittest

from broker import BINARY, PATIENCE, Broker, Mosquitto
from paho_client import Client, MQTT_3_1_1


class Import(unittest.TestCase):
    @unittest.skipUnless(os.geteuid() == 0, "Mosquitto keeps its state as its own user")
    def test_sessions_subscriptions_and_retained_messages_go_on(self):
        temporary = tempfile.TemporaryDirectory(prefix="tidegate-import-")
        self.addCleanup(temporary.cleanup)
        folder = pathlib.Path(temporary.name)
        mosquitto = Mosquitto(folder, f"allow_anonymous true\npersistence true\npersistence_location {folder}/\n")
        self.addCleanup(mosquitto.process.kill)
        keeper = Client(mosquitto, "keeper", clean=False, expiry=3600)
        keeper.subscribe("gate/#", qos=2)
        old = Client(mosquitto, "old", version=MQTT_3_1_1, clean=False)
        old.subscribe("lock/+", qos=1)
        keeper.publish("state/gate", "open", qos=1, retain=True)
        keeper.leave()
        old.leave()
        mosquitto.stop()
        command = [BINARY, "store", "import", folder / "data", "--mosquitto", folder / "mosquitto.db"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("2 sessions, 2 subscriptions, 1 retained messages", done.stderr)

        broker = Broker("--data", str(folder / "data"))
        self.addCleanup(broker.close)
        sender = Client(broker)
        self.addCleanup(sender.leave)
        sender.publish("gate/1", "closed", qos=2)
        sender.publish("lock/1", "free", qos=1)
        for name, options, payload in (("keeper", {"expiry": 3600}, "closed"), ("old", {"version": MQTT_3_1_1}, "free")):
            client = Client(broker, name, clean=False, **options)
            self.addCleanup(client.leave)
            self.assertTrue(client.flags.session_present)
            self.assertEqual(client.payloads(), [payload])
        sender.subscribe("state/gate", qos=1)
        self.assertEqual(sender.payloads(), ["open"])

    def test_another_file_is_refused(self):
        with tempfile.TemporaryDirectory(prefix="tidegate-import-") as folder:
            command = [BINARY, "store", "import", f"{folder}/data", "--mosquitto", __file__]
            done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
            self.assertEqual(done.returncode, 2)
            self.assertIn("this is no mosquitto.db", done.stderr)
            self.assertFalse(os.path.exists(f"{folder}/data"))


if __name__ == "__main__":
    unittest.main()
