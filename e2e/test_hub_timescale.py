"""A pipeline into a hypertable of TimescaleDB: each message is there once through kill -9 of the broker."""

import json
import shutil
import subprocess
import unittest

from broker import PATIENCE, ROOT, free_ports
from pipelines import PipelineCase

NODE = shutil.which("node")
PACKAGE = ROOT / "e2e" / "node_modules" / "@unni-craftsman" / "pglite"


class Timescale:
    """A server of its own, which takes one connection at a time."""

    def __init__(self, test):
        self.port = free_ports(1)[0]
        command = [NODE, str(ROOT / "e2e" / "timescale.mjs"), str(self.port)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        test.addCleanup(self.stop)
        if self.process.stdout.readline() != "ready\n":
            raise AssertionError("TimescaleDB did not start")

    def stop(self):
        self.process.stdin.close()
        self.process.wait(PATIENCE)
        self.process.stdout.close()

    def ask(self, query):
        self.process.stdin.write(query + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())


@unittest.skipUnless(NODE and PACKAGE.exists(), "TimescaleDB is not here: ./test e2e installs it")
class IntoTimescale(PipelineCase):
    def test_each_message_is_there_once_after_kill_9(self):
        server = Timescale(self)
        server.ask(
            "CREATE TABLE readings (time timestamptz NOT NULL, message_id text NOT NULL, temp double precision,"
            " UNIQUE (message_id, time))"
        )
        server.ask("SELECT create_hypertable('readings', 'time')")
        self.config.write_text(
            '[[sink]]\nname = "db"\nkind = "postgres"\ntable = "readings"\n'
            f'url = "postgres://postgres:any@127.0.0.1:{server.port}/postgres"\nretry_min = "50ms"\nretry_max = "200ms"\n'
            '[[pipeline]]\nname = "hot"\nfrom = ["plant/+/temp"]\nto = ["db"]\n'
            "sql = \"SELECT unix_ts_to_rfc3339(timestamp, 'millisecond') AS time, payload.temp AS temp FROM 'plant/+/temp'\"\n",
            encoding="utf-8",
        )
        acknowledged = self.kill_again_and_again()
        rows = server.ask("SELECT temp FROM readings")
        self.assertEqual(acknowledged - {row["temp"] for row in rows}, set())
        self.assertEqual(len(rows), len({row["temp"] for row in rows}))
        self.assertTrue(server.ask("SELECT show_chunks('readings')"), "they are in chunks")


if __name__ == "__main__":
    unittest.main()
