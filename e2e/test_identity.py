"""An orchestrator that shows Mosquitto each client's own credentials: its password file says who comes in, its ACL file what they may do."""

import json
import pathlib
import subprocess
import tempfile
import unittest
import urllib.request

from broker import BINARY, MOSQUITTO, PATIENCE, free_ports
from test_orchestrator import SERVER, Process, Subscriber

RULES = """\
user ann
topic readwrite ann/#
topic write shared/#
user bob
topic readwrite bob/#
topic read shared/#
"""


@unittest.skipIf(MOSQUITTO or not SERVER, "the orchestrator is ours, and its broker is a Mosquitto")
class Identity(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="tidegate-e2e-")
        self.addCleanup(folder.cleanup)
        self.data = pathlib.Path(folder.name)
        self.port, self.admin, at_home = free_ports(3)
        users, rules, config = self.data / "users", self.data / "rules", self.data / "mosquitto.conf"
        users.touch(mode=0o600)
        for user in ("ann", "bob", "watch"):
            subprocess.run(["mosquitto_passwd", "-b", users, user, f"{user}-secret"], check=True, capture_output=True, timeout=PATIENCE)
        rules.write_text(RULES)
        rules.chmod(0o600)
        config.write_text(
            f"user {self.data.owner()}\nlistener {at_home} 127.0.0.1\nallow_anonymous false\n"
            f"password_file {users}\nacl_file {rules}\n"
        )
        self.broker = Process(self, [SERVER, "-v", "-c", str(config)], "running")
        self.orchestrator = Process(
            self,
            [BINARY, "orchestrator", "--listen", f"127.0.0.1:{self.port}", "--admin", f"127.0.0.1:{self.admin}",
             "--broker", f"b=mqtt://watch:watch-secret@127.0.0.1:{at_home}", "--set", "orchestrator.identity=client",
             "--set", "orchestrator.identity_linger=0s"],
            "ready:",
        )
        self.orchestrator.output.wait(lambda line: "broker serving" in line, 1)

    def as_user(self, user):
        return ["-u", user, "-P", f"{user}-secret"]

    def publish(self, *flags):
        command = ["mosquitto_pub", "-V", "mqttv5", "-p", str(self.port), "-m", "x", *flags]
        return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)

    def fleet(self):
        request = urllib.request.Request(f"http://127.0.0.1:{self.admin}/api/v1/fleet")
        with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
            return json.load(answer)

    def test_mosquitto_says_who_comes_in(self):
        for flags in ([], ["-u", "ann", "-P", "wrong"], ["-u", "eve", "-P", "ann-secret"]):
            ended = self.publish("-t", "ann/x", *flags)
            self.assertNotEqual(ended.returncode, 0, flags)
            self.assertIn("Connection error", ended.stdout + ended.stderr)
        self.assertEqual(self.publish("-t", "ann/x", "-q", "1", *self.as_user("ann")).returncode, 0)

    def test_the_acl_of_mosquitto_decides_what_reaches_whom(self):
        bob = Subscriber(self, self.port, "-V", "mqttv5", "-q", "1", "-t", "#", *self.as_user("bob"))
        ann = Subscriber(self, self.port, "-V", "mqttv311", "-q", "1", "-t", "#", *self.as_user("ann"))
        for quality in ("0", "1", "2"):
            for topic in ("bob/forged", "ann/own", "shared/news"):
                self.assertEqual(self.publish("-t", topic, "-q", quality, *self.as_user("ann")).returncode, 0)
        self.publish("-t", "bob/last", "-q", "1", *self.as_user("bob"))
        self.publish("-t", "ann/last", "-q", "1", *self.as_user("ann"))
        topics = lambda subscriber, number: [line.split()[0] for line in subscriber.messages(number)]
        self.assertCountEqual(topics(bob, 4), ["shared/news"] * 3 + ["bob/last"])
        self.assertCountEqual(topics(ann, 4), ["ann/own"] * 3 + ["ann/last"])
        self.assertEqual(self.fleet()["identities"], 2)

    def test_a_user_that_nobody_is_any_more_leaves_the_broker(self):
        self.assertEqual(self.publish("-t", "ann/kept", "-r", "-q", "1", *self.as_user("ann")).returncode, 0)
        # Its name at the broker holds that of the user.
        self.broker.output.wait(lambda line: "~ann-b" in line and "disconnected" in line, 1)
        late = Subscriber(self, self.port, "-V", "mqttv5", "-t", "ann/#", *self.as_user("ann"))
        self.assertEqual(late.messages(1), ["ann/kept 0 1 x"])


if __name__ == "__main__":
    unittest.main()
