"""A pipeline into a real server of S3, Versity's gateway on a folder: signed requests, kill -9 of the broker and of the server."""

import json
import shutil
import subprocess
import unittest

from broker import PATIENCE, ROOT, Lines, free_ports
from pipelines import PipelineCase

# Where ./test puts it.
GATEWAY = shutil.which("versitygw", path=ROOT / "target" / "servers" / "bin")


@unittest.skipUnless(GATEWAY, "there is no server of S3 here: ./test e2e installs it")
class IntoS3(PipelineCase):
    def setUp(self):
        super().setUp()
        self.port, self.buckets = free_ports(1)[0], self.folder / "buckets"
        (self.buckets / "readings").mkdir(parents=True)
        self.secret = self.folder / "secret"

        self.server = None
        self.addCleanup(self.stop)

    def start(self):
        command = [GATEWAY, "--port", f"127.0.0.1:{self.port}", "--access", "hub", "--secret", "known", "posix", self.buckets]
        self.server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        Lines(self.server.stdout).wait(lambda line: str(self.port) in line)

    def stop(self):
        if self.server:
            self.server.kill()
            self.server.wait(PATIENCE)
            self.server = None

    def configure(self, secret):
        self.secret.write_text(f"{secret}\n", encoding="utf-8")
        self.config.write_text(
            f'[[sink]]\nname = "lake"\nkind = "s3"\nurl = "http://127.0.0.1:{self.port}"\nbucket = "readings"\n'
            f'prefix = "plant 7/"\naccess_key = "hub"\nsecret_file = "{self.secret}"\nretry_min = "50ms"\nretry_max = "200ms"\n'
            '[[pipeline]]\nname = "hot"\nfrom = ["plant/+/temp"]\nto = ["lake"]\n'
            "sql = \"SELECT payload.temp AS temp FROM 'plant/+/temp'\"\n",
            encoding="utf-8",
        )

    def records(self):
        objects = (self.buckets / "readings" / "plant 7" / "hot").rglob("*.ndjson")
        return [json.loads(line)["temp"] for one in objects for line in one.read_text(encoding="utf-8").splitlines()]

    def test_a_request_with_a_wrong_signature_comes_again(self):
        self.start()
        self.configure("wrong")
        broker = self.broker()
        self.publish(broker, [{"temp": 1}])
        status = self.wait(broker, lambda it: it["state"] == "retrying")
        self.assertIn("SignatureDoesNotMatch", status["error"])
        broker.kill()
        self.configure("known")
        broker = self.broker()
        self.wait(broker, lambda it: it["out"] == 1)
        self.assertEqual(self.records(), [1])

    def test_no_acknowledged_message_is_lost_by_kill_9_of_both(self):
        self.configure("known")
        broker = self.broker()
        self.publish(broker, [{"temp": number} for number in range(10_000, 10_100)])
        self.wait(broker, lambda it: it["state"] == "retrying")
        broker.kill()
        self.start()
        acknowledged = self.kill_again_and_again(server=self)
        self.assertEqual((acknowledged | set(range(10_000, 10_100))) - set(self.records()), set())


if __name__ == "__main__":
    unittest.main()
