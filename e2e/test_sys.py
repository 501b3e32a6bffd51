"""What the broker tells of itself, against the page that explains it."""

import json
import re
import unittest

from broker import MOSQUITTO, ROOT, Broker
from paho_client import Client


def documented():
    """The topics of values in docs/sys.md."""
    topics = set()
    for line in (ROOT / "docs" / "sys.md").read_text(encoding="utf-8").splitlines():
        row = re.match(r"\| (`\$SYS/broker/[^|]*) \|", line)
        if row:
            first, *more = re.findall(r"`([^`]+)`", row[1])
            topics |= {first} | {first.rsplit("/", 1)[0] + "/" + last for last in more}
    return topics


@unittest.skipIf(MOSQUITTO, "about our own page")
class Sys(unittest.TestCase):
    def setUp(self):
        self.broker = Broker("--set", "sys.interval=1s")
        self.addCleanup(self.broker.close)
        self.watcher = Client(self.broker)
        self.addCleanup(self.watcher.leave)

    def test_values_are_those_that_the_page_explains(self):
        expected = documented() - {"$SYS/broker/publish/messages/dropped/REASON"}
        self.watcher.subscribe("$SYS/broker/#")
        seen = set()
        while not expected <= seen:
            message = self.watcher.receive()[0]
            self.assertNotEqual(message.payload, b"")
            if message.topic in seen and expected - seen and "/load/" in message.topic:
                self.fail(f"a round without {expected - seen}")
            seen.add(message.topic)
        self.assertEqual(seen, expected)

    def test_events_tell_who_came_and_went_and_why(self):
        self.watcher.subscribe("$SYS/brokers/+/clients/#")
        Client(self.broker, "sluice/1").leave()
        came, went = self.watcher.receive(2)
        self.assertRegex(came.topic, r"^\$SYS/brokers/[^/]+/clients/sluice_1/connected$")
        self.assertRegex(went.topic, r"^\$SYS/brokers/[^/]+/clients/sluice_1/disconnected$")
        self.assertEqual(json.loads(came.payload)["clientid"], "sluice/1")
        self.assertEqual(json.loads(went.payload)["reason"], "normal_disconnect")


if __name__ == "__main__":
    unittest.main()
