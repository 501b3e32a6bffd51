"""A pipeline into a real InfluxDB: points, kill -9 of the broker and of the server."""

import json
import os
import shutil
import subprocess
import time
import unittest
import urllib.error
import urllib.parse
import urllib.request

from broker import PATIENCE, free_ports
from pipelines import PipelineCase

INFLUXD = shutil.which("influxd")


class Influx:
    """A server of its own; it may be away for a while."""

    def __init__(self, test, folder):
        self.folder, self.process = folder, None
        self.port, self.backup_port = free_ports(2)
        test.addCleanup(self.stop)

    def start(self):
        settings = {
            "HTTP_BIND_ADDRESS": f"127.0.0.1:{self.port}", "BIND_ADDRESS": f"127.0.0.1:{self.backup_port}",
            "META_DIR": f"{self.folder}/meta", "DATA_DIR": f"{self.folder}/data", "DATA_WAL_DIR": f"{self.folder}/wal",
            "REPORTING_DISABLED": "true", "MONITOR_STORE_ENABLED": "false",
        }
        environment = {**os.environ, **{f"INFLUXDB_{name}": value for name, value in settings.items()}}
        quiet = subprocess.DEVNULL
        self.process = subprocess.Popen([INFLUXD, "-config", os.devnull], env=environment, stdout=quiet, stderr=quiet)
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                self.ask("CREATE DATABASE plant")
                return
            except urllib.error.URLError:
                if time.monotonic() > deadline or self.process.poll() is not None:
                    raise

    def stop(self):
        if self.process:
            self.process.kill()
            self.process.wait(PATIENCE)
            self.process = None

    def ask(self, query):
        """The rows of an answer."""
        body = urllib.parse.urlencode({"db": "plant", "q": query}).encode()
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/query", body, PATIENCE) as answer:
            series = json.load(answer)["results"][0].get("series", [])
        return [row for each in series for row in each["values"]]


@unittest.skipUnless(INFLUXD, "there is no InfluxDB here")
class IntoInfluxDb(PipelineCase):
    def test_no_acknowledged_message_is_lost_by_kill_9_of_both(self):
        influx = Influx(self, self.folder / "influx")
        self.config.write_text(
            f'[[sink]]\nname = "points"\nkind = "influxdb"\nmeasurement = "readings"\n'
            f'url = "http://127.0.0.1:{influx.port}/write?db=plant&precision=ns"\n'
            'retry_min = "50ms"\nretry_max = "200ms"\n'
            '[[pipeline]]\nname = "hot"\nfrom = ["plant/+/temp"]\nto = ["points"]\n'
            "sql = \"SELECT payload.temp AS temp, topic FROM 'plant/+/temp'\"\n",
            encoding="utf-8",
        )
        influx.start()
        acknowledged = self.kill_again_and_again(server=influx)
        rows = influx.ask("SELECT temp, topic FROM readings")
        self.assertEqual(acknowledged - {row[1] for row in rows}, set())
        self.assertEqual({row[2] for row in rows}, {"plant/a/temp"})


if __name__ == "__main__":
    unittest.main()
