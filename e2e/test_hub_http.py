"""A pipeline into a server of HTTP that keeps what it answers with 200: kill -9 of the broker and of the server."""

import json
import subprocess
import sys
import unittest

from broker import PATIENCE, free_ports
from pipelines import PipelineCase

# Each request is on the disk before its answer. The server says when it listens.
SERVER = """
import http.server, os, sys

class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        with open(sys.argv[2], "ab") as file:
            file.write(self.headers["idempotency-key"].encode() + b" " + body + b"\\n")
            file.flush()
            os.fsync(file.fileno())
        self.send_response(200)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass

server = http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler)
print("listening", flush=True)
server.serve_forever()
"""


class Server:
    """It may be away for a while."""

    def __init__(self, test, folder):
        self.port, self.file, self.process = free_ports(1)[0], folder / "requests", None
        test.addCleanup(self.stop)

    def start(self):
        command = [sys.executable, "-c", SERVER, str(self.port), str(self.file)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        if self.process.stdout.readline() != "listening\n":
            raise AssertionError("the server did not start")

    def stop(self):
        if self.process:
            self.process.kill()
            self.process.wait(PATIENCE)
            self.process.stdout.close()
            self.process = None

    def batches(self):
        """The records of each request by its key. The last line may be torn by a kill: it was not answered."""
        lines = [line.split(" ", 1) for line in self.file.read_text(encoding="utf-8").splitlines()]
        found = {}
        for key, body in lines:
            try:
                found.setdefault(key, []).append([row["temp"] for row in json.loads(body)])
            except ValueError:
                continue
        return found


class IntoHttp(PipelineCase):
    def test_no_acknowledged_message_is_lost_by_kill_9_of_both(self):
        server = Server(self, self.folder)
        self.config.write_text(
            f'[[sink]]\nname = "hook"\nkind = "http"\nurl = "http://127.0.0.1:{server.port}/readings"\n'
            'retry_min = "50ms"\nretry_max = "200ms"\n'
            '[[pipeline]]\nname = "hot"\nfrom = ["plant/+/temp"]\nto = ["hook"]\n'
            "sql = \"SELECT payload.temp AS temp FROM 'plant/+/temp'\"\n",
            encoding="utf-8",
        )
        server.start()
        acknowledged = self.kill_again_and_again(server=server)
        batches = server.batches()
        numbers = {number for bodies in batches.values() for body in bodies for number in body}
        self.assertEqual(acknowledged - numbers, set())
        # Who leaves out a known key has the same batch once.
        self.assertTrue(all(body == bodies[0] for bodies in batches.values() for body in bodies))


if __name__ == "__main__":
    unittest.main()
