"""A pipeline into a real Redis: entries of a stream, an outage of the server, kill -9 of the broker and of Redis."""

import json
import shutil
import subprocess
import unittest

from broker import PATIENCE, free_ports
from pipelines import PipelineCase

REDIS = shutil.which("redis-server")


class Redis:
    """A server of its own; it may be away for a while."""

    def __init__(self, test, folder):
        self.folder, self.port, self.process = folder, free_ports(1)[0], None
        test.addCleanup(self.stop)

    def start(self):
        options = f"--bind 127.0.0.1 --port {self.port} --dir {self.folder} --appendonly yes --appendfsync always"
        command = [REDIS, *options.split(), "--requirepass", "secret"]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        for line in self.process.stdout:
            if "Ready to accept connections" in line:
                return
        raise AssertionError("Redis did not become ready")

    def stop(self):
        if self.process:
            self.process.kill()
            self.process.wait(PATIENCE)
            self.process.stdout.close()
            self.process = None

    def ask(self, *words):
        command = ["redis-cli", "-p", str(self.port), "-a", "secret", "--no-auth-warning", "--json", *words]
        return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


@unittest.skipUnless(REDIS, "there is no Redis here")
class IntoRedis(PipelineCase):
    def setUp(self):
        super().setUp()
        self.redis = Redis(self, self.folder)
        self.config.write_text(
            f'[[sink]]\nname = "cache"\nkind = "redis"\nurl = "redis://:secret@127.0.0.1:{self.redis.port}/1"\n'
            'stream = "readings"\nretry_min = "50ms"\nretry_max = "200ms"\n'
            '[[pipeline]]\nname = "hot"\nfrom = ["plant/+/temp"]\nto = ["cache"]\n'
            "sql = \"SELECT payload.temp AS temp, topic FROM 'plant/+/temp'\"\n",
            encoding="utf-8",
        )

    def entries(self):
        found = self.redis.ask("-n", "1", "XRANGE", "readings", "-", "+")
        return [dict(zip(fields[::2], fields[1::2])) for _, fields in found]

    def test_no_acknowledged_message_is_lost_by_kill_9_of_both(self):
        self.redis.start()
        acknowledged = self.kill_again_and_again(server=self.redis)
        self.assertEqual(acknowledged - {int(entry["temp"]) for entry in self.entries()}, set())

    def test_each_message_is_an_entry_after_an_outage_and_kill_9(self):
        broker = self.broker()
        self.publish(broker, [{"temp": number} for number in range(100)])
        self.wait(broker, lambda it: it["state"] == "retrying" and it["waiting"] == 100)
        broker.kill()
        self.redis.start()
        broker = self.broker()
        self.wait(broker, lambda it: it["out"] >= 100)
        self.redis.stop()
        self.publish(broker, [{"temp": number} for number in range(100, 200)])
        self.redis.start()
        self.wait(broker, lambda it: it["out"] == 200 and it["waiting"] == 0)
        entries = self.entries()
        self.assertEqual({int(entry["temp"]) for entry in entries}, set(range(200)))
        self.assertEqual({entry["topic"] for entry in entries}, {"plant/a/temp"})
        self.assertEqual(len({entry["message_id"] for entry in entries}), 200)


if __name__ == "__main__":
    unittest.main()
