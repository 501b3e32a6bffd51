"""A pipeline into a real NATS JetStream: kill -9 of the broker and of the server."""

import base64
import json
import shutil
import socket
import subprocess
import unittest

from broker import PATIENCE, ROOT, free_ports
from pipelines import PipelineCase

INSTALLED = ROOT / "target" / "servers" / "bin" / "nats-server"
NATS = str(INSTALLED) if INSTALLED.exists() else shutil.which("nats-server")


class Nats:
    """A server of its own; it may be away for a while."""

    def __init__(self, test, folder):
        self.folder, self.port, self.process = folder, free_ports(1)[0], None
        test.addCleanup(self.stop)

    def start(self, *more):
        command = [NATS, "-js", "-a", "127.0.0.1", "-p", str(self.port), "-sd", str(self.folder / "jetstream"), *more]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        for line in self.process.stderr:
            if "Server is ready" in line:
                return
        raise AssertionError("NATS did not become ready")

    def stop(self):
        if self.process:
            self.process.kill()
            self.process.wait(PATIENCE)
            self.process.stderr.close()
            self.process = None

    def messages(self, stream):
        """The payloads of a stream and the values of the header `Nats-Msg-Id`."""
        with socket.create_connection(("127.0.0.1", self.port), PATIENCE) as client, client.makefile("rb") as lines:
            client.sendall(b'CONNECT {"verbose":false}\r\nSUB answers 1\r\n')

            def ask(what, request):
                body = json.dumps(request).encode()
                client.sendall(f"PUB $JS.API.STREAM.{what}.{stream} answers {len(body)}\r\n".encode() + body + b"\r\n")
                while not (line := lines.readline()).startswith(b"MSG "):
                    self.assert_open(line)
                return json.loads(lines.read(int(line.split()[-1]) + 2))

            last = ask("INFO", {})["state"]["last_seq"]
            stored = [ask("MSG.GET", {"seq": number})["message"] for number in range(1, last + 1)]
        payloads = [json.loads(base64.b64decode(message["data"])) for message in stored]
        ids = [base64.b64decode(message["hdrs"]).decode().split("Nats-Msg-Id: ")[1].split("\r\n")[0] for message in stored]
        return payloads, ids

    @staticmethod
    def assert_open(line):
        if not line:
            raise AssertionError("NATS has closed the connection")


@unittest.skipUnless(NATS, "there is no NATS server here")
class IntoNats(PipelineCase):
    def test_each_message_is_there_once_after_kill_9_of_both(self):
        nats = Nats(self, self.folder)
        self.config.write_text(
            f'[[sink]]\nname = "bus"\nkind = "nats"\nurl = "nats://127.0.0.1:{nats.port}"\nstream = "READINGS"\n'
            'retry_min = "50ms"\nretry_max = "200ms"\n'
            '[[pipeline]]\nname = "hot"\nfrom = ["plant/+/temp"]\nto = ["bus"]\n'
            "sql = \"SELECT payload.temp AS temp FROM 'plant/+/temp'\"\n",
            encoding="utf-8",
        )
        nats.start()
        acknowledged = self.kill_again_and_again(server=nats)
        payloads, ids = nats.messages("READINGS")
        self.assertEqual(acknowledged - {payload["temp"] for payload in payloads}, set())
        self.assertEqual(len(set(ids)), len(ids), "within the time for duplicates")

    def test_a_subject_without_rights_does_not_stop_the_others(self):
        nats, dead = Nats(self, self.folder), self.folder / "dead.ndjson"
        rights = self.folder / "rights.conf"
        rights.write_text(
            'authorization { users: [{ user: "reader", password: "r" }, { user: "hub", password: "h", '
            'permissions: { publish: { deny: ["tidegate.plant.secret.>"] } } }] }\nno_auth_user: "reader"\n',
            encoding="utf-8",
        )
        self.config.write_text(
            f'[[sink]]\nname = "bus"\nkind = "nats"\nurl = "nats://hub:h@127.0.0.1:{nats.port}"\nstream = "READINGS"\n'
            'retry_min = "50ms"\nretry_max = "200ms"\n'
            f'[[sink]]\nname = "dead"\nkind = "file"\npath = "{dead}"\n'
            '[[pipeline]]\nname = "hot"\nfrom = ["plant/+/temp"]\nto = ["bus"]\ndead_letter = "dead"\n'
            "sql = \"SELECT payload.temp AS temp FROM 'plant/+/temp'\"\n",
            encoding="utf-8",
        )
        nats.start("-c", str(rights))
        broker = self.broker()
        self.publish(broker, [{"temp": 1}])
        self.publish(broker, [{"temp": 2}, {"temp": 3}], "plant/secret/temp")
        self.publish(broker, [{"temp": 4}])
        self.wait(broker, lambda it: (it["out"], it["failed"], it["waiting"]) == (2, 2, 0))
        letters = [json.loads(line) for line in dead.read_text(encoding="utf-8").splitlines()]
        self.assertEqual([letter["temp"] for letter in letters], [2, 3])
        self.assertIn("Permissions Violation", letters[0]["dead_letter_reason"])
        payloads, _ = nats.messages("READINGS")
        self.assertEqual(sorted(payload["temp"] for payload in payloads), [1, 4])


if __name__ == "__main__":
    unittest.main()
