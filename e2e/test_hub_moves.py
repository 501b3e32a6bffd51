"""Pipelines of a cluster whose sinks keep each record once, while nodes die by kill -9, leave and come back."""

import collections
import json
import time
import unittest
import urllib.request

from broker import PATIENCE, START_PATIENCE, Broker
from pipelines import KILLS, Books, PipelineCase
from test_hub import INITDB, Postgres
from test_hub_kafka import JAVA, LIBRARIES, Kafka, number_of
from test_hub_nats import NATS, Nats

NODES = ("a", "b")


@unittest.skipUnless(NATS and INITDB and JAVA and LIBRARIES.is_dir(), "it needs NATS, PostgreSQL and Kafka")
class MovingPipelines(PipelineCase):
    def setUp(self):
        super().setUp()
        self.bus, self.postgres = Nats(self, self.folder), Postgres(self)
        self.kafka = Kafka(self, self.folder)
        for server in (self.bus, self.postgres, self.kafka):
            server.start()
        self.file, self.nodes, self.next, self.acknowledged = self.folder / "once.ndjson", {}, 0, set()
        pipeline = "[[pipeline]]\nname = '{0}'\nfrom = ['plant/+/temp']\nto = ['{0}']\nsql = \"SELECT payload.temp AS temp FROM 'plant/+/temp'\"\n"
        retries = "retry_min = '50ms'\nretry_max = '200ms'\n"
        self.config.write_text(
            f"[[sink]]\nname = 'lines'\nkind = 'file'\npath = '{self.file}'\nexactly_once = true\n{retries}"
            f"[[sink]]\nname = 'rows'\nkind = 'postgres'\nurl = '{self.postgres.url}'\ntable = 'readings'\n{retries}"
            f"[[sink]]\nname = 'records'\nkind = 'kafka'\nurl = 'kafka://127.0.0.1:{self.kafka.port}'\n"
            f"topic = 'readings'\nexactly_once = true\n{retries}"
            + "".join(pipeline.format(name) for name in ("lines", "rows", "records")),
            encoding="utf-8",
        )

    def start(self, name):
        """Starts a node, and waits until all nodes have their shares."""
        settings = ["cluster.lease=10s", "cluster.settle=0", "mirror.max_bytes=256MiB"]
        self.nodes[name] = Broker(
            "--node", name, "--bus", f"nats://127.0.0.1:{self.bus.port}", "--config", str(self.config),
            "--data", str(self.folder / name), *(part for it in settings for part in ("--set", it)),
        )
        self.addCleanup(self.nodes[name].close)

    def ask(self, name, path):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.nodes[name].admin_port}{path}", timeout=PATIENCE) as answer:
            return json.load(answer)

    def until(self, name, path, wanted):
        """The answer of a node, once that is so."""
        deadline = time.monotonic() + START_PATIENCE
        while not wanted(answer := self.ask(name, path)):
            self.assertLess(time.monotonic(), deadline, answer)
            time.sleep(0.05)
        return answer

    def publish(self, name, count):
        """Publishes at a node until so many more are acknowledged. A number is sent once: a publisher that loses its
        connection leaves the rest, whose end is not known, to the next one."""
        wanted, deadline = len(self.acknowledged) + count, time.monotonic() + START_PATIENCE
        while len(self.acknowledged) < wanted:
            self.assertLess(time.monotonic(), deadline)
            books = Books(self.next)
            books.start(self.nodes[name].port)
            books.wait_or_end(wanted - len(self.acknowledged))
            self.next = books.stop()
            self.acknowledged |= books.acknowledged

    def strike(self, name, other, end):
        """One node goes while messages come, and comes back while messages come."""
        books = Books(self.next)
        books.start(self.nodes[other].port)
        books.wait(150)
        end(self.nodes[name])
        self.next = books.stop()
        self.acknowledged |= books.acknowledged
        self.publish(other, 150)
        self.until(other, "/api/v1/cluster", lambda it: it["served"] == 1024)
        self.until(other, "/api/v1/hub", lambda it: all(one["state"] == "running" for one in it.values()))
        self.start(name)
        self.publish(other, 150)
        self.until(name, "/api/v1/cluster", lambda it: it["served"] == 512 and it["moves"] == [])
        self.publish(name, 150)

    def test_each_record_is_there_once_by_moves_and_kill_9(self):
        for name in NODES:
            self.start(name)
        self.until("a", "/api/v1/cluster", lambda it: it["served"] == 512 and it["moves"] == [])
        self.until("a", "/api/v1/hub", lambda it: all(one["state"] == "running" for one in it.values()))
        for end in KILLS * (Broker.kill, Broker.terminate):
            self.strike("a", "b", end)
            self.strike("b", "a", end)
        self.until("a", "/api/v1/hub", lambda it: all(one["state"] == "running" and one["waiting"] == 0 for one in it.values()))
        found = {
            "lines": [number_of(line) for line in self.file.read_text(encoding="utf-8").splitlines()],
            "rows": [int(row[0]) for row in self.postgres.ask("SELECT temp FROM readings")],
            "records": [number_of(value) for value in self.kafka.committed(
                "readings", lambda values: self.acknowledged <= set(map(number_of, values)))],
        }
        for sink, numbers in found.items():
            with self.subTest(sink):
                self.assertEqual(self.acknowledged - set(numbers), set())
                twice = [number for number, count in collections.Counter(numbers).items() if count > 1]
                self.assertEqual(twice, [])


if __name__ == "__main__":
    unittest.main()
