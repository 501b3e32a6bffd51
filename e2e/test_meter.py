"""The books of usage through kill -9: each acknowledged message that a queue keeps is in them, and none that was not sent."""

import json
import time
import unittest
import urllib.request

from broker import PATIENCE
from pipelines import Books, PipelineCase


class Metering(PipelineCase):
    def setUp(self):
        super().setUp()
        self.config.write_text(
            f'[node]\nshards = 2\n[[sink]]\nname = "archive"\npath = "{self.folder / "readings.ndjson"}"\n'
            '[[pipeline]]\nname = "hot"\nfrom = ["plant/+/temp"]\nto = ["archive"]\n',
            encoding="utf-8",
        )

    def messages_in(self, broker):
        url = f"http://127.0.0.1:{broker.admin_port}/api/v1/meter?from_ms=0&to_ms={int(time.time() * 1000) + 60_000}"
        with urllib.request.urlopen(url, timeout=PATIENCE) as answer:
            return sum(tenant["messages_in"] for tenant in json.load(answer)["tenants"])

    def test_kill_9_of_a_busy_broker_loses_no_acknowledged_message(self):
        acknowledged = number = 0
        broker = self.broker()
        for count in (1, 80, 250, 400):
            books = Books(number)
            books.start(broker.port)
            books.wait(count)
            broker.kill()
            number = books.stop()
            acknowledged += len(books.acknowledged)
            broker = self.broker()
            counted = self.messages_in(broker)
            self.assertLessEqual(acknowledged, counted)
            # Messages of the last moment were counted, or were not: no later message may make up for them.
            self.assertLessEqual(counted, number)
            acknowledged = counted

    def test_kill_9_after_a_quiet_publisher_changes_nothing(self):
        broker = self.broker()
        for count in (3, 8):
            self.publish(broker, [{"temp": number} for number in range(count)])
            broker.kill()
            broker = self.broker()
        self.assertEqual(self.messages_in(broker), 11)


if __name__ == "__main__":
    unittest.main()
