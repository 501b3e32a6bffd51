"""Pipelines into and out of a real Kafka: kill -9 of the broker and of Kafka, records that are too large, TLS with passwords,
partitions that processes share."""

import json
import pathlib
import re
import shutil
import subprocess
import sys
import time
import unittest

from broker import BINARY, PATIENCE, ROOT, START_PATIENCE, Broker, Lines, free_ports
from pipelines import Books, PipelineCase

# Where ./test puts it.
LIBRARIES = ROOT / "target" / "servers" / "kafka" / "lib"
JAVA = shutil.which("java")


def number_of(value):
    """The number of a record such as `{"temp":7}`."""
    return json.loads(value)["temp"]


class Kafka:
    """A single node; it may be away for a while."""

    def __init__(self, test, folder):
        self.folder, self.process, self.log = folder, None, None
        self.port, self.safe_port, controller = free_ports(3)
        self.certificates = folder / "certificates"
        subprocess.run([BINARY, "cert", "dev", "--out", self.certificates], check=True, capture_output=True)
        store = self.certificates / "store.pem"
        parts = [self.certificates / name for name in ("server.key", "server.pem")]
        store.write_text("".join(part.read_text(encoding="utf-8") for part in parts), encoding="utf-8")
        login = 'required username="node" password="known"'
        security = "org.apache.kafka.common.security"
        self.properties = folder / "server.properties"
        self.properties.write_text(
            "process.roles=broker,controller\nnode.id=1\ncontroller.listener.names=CONTROLLER\n"
            f"controller.quorum.voters=1@127.0.0.1:{controller}\n"
            f"listeners=PLAINTEXT://127.0.0.1:{self.port},SAFE://127.0.0.1:{self.safe_port},CONTROLLER://127.0.0.1:{controller}\n"
            "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,SAFE:SASL_SSL,CONTROLLER:PLAINTEXT\n"
            f"listener.name.safe.ssl.keystore.type=PEM\nlistener.name.safe.ssl.keystore.location={store}\n"
            "listener.name.safe.sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-512\n"
            f"listener.name.safe.plain.sasl.jaas.config={security}.plain.PlainLoginModule {login} user_node=\"known\";\n"
            f"listener.name.safe.scram-sha-512.sasl.jaas.config={security}.scram.ScramLoginModule {login};\n"
            "num.partitions=3\noffsets.topic.replication.factor=1\nshare.coordinator.state.topic.replication.factor=1\n"
            f"share.coordinator.state.topic.min.isr=1\ntransaction.state.log.replication.factor=1\ntransaction.state.log.min.isr=1\nlog.dirs={folder}/kafka\n",
            encoding="utf-8",
        )
        self.run("kafka.tools.StorageTool", "format", "-t", "MkU3OEVBNTcwNTJENDM2Qg", "-c", self.properties,
                 "--add-scram", "SCRAM-SHA-512=[name=node,password=known]")
        test.addCleanup(self.stop)

    @staticmethod
    def command(tool, *arguments):
        # The server runs for seconds. A second compiler and a parallel garbage collector would only take
        # processors from other tests.
        options = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xms128m", "-Xmx512m",
                   "-Dorg.slf4j.simpleLogger.defaultLogLevel=info"]
        return [JAVA, *options, "-cp", f"{LIBRARIES}/*", tool, *map(str, arguments)]

    def run(self, tool, *arguments):
        done = subprocess.run(self.command(tool, *arguments), capture_output=True, text=True, check=False)
        if done.returncode:
            raise AssertionError(f"{tool}: {done.stderr[-2000:]}")
        return done.stdout

    def start(self):
        self.process = subprocess.Popen(self.command("kafka.Kafka", self.properties), stdout=subprocess.DEVNULL,
                                        stderr=subprocess.PIPE, text=True)
        self.log = Lines(self.process.stderr)
        self.log.wait(lambda line: "Kafka Server started" in line, patience=START_PATIENCE)

    def has_lost_an_end(self):
        """Whether it has said that it writes no end of a transaction (KAFKA-20734 in 4.3): when it starts after a kill, it takes
        the partitions for deleted."""
        with self.log.changed:
            return any("Couldn't find leader endpoint for partitions" in line for line in self.log.lines)

    def stop(self):
        if self.process:
            self.process.kill()
            self.process.wait(PATIENCE)
            self.process = None

    def produce(self, topic, pairs, codec="none"):
        """Writes pairs of key and value with Kafka's own producer."""
        command = self.command("org.apache.kafka.tools.ConsoleProducer", "--bootstrap-server", f"127.0.0.1:{self.port}",
                               "--topic", topic, "--property", "parse.key=true", "--compression-codec", codec)
        lines = "".join(f"{key}\t{value}\n" for key, value in pairs)
        done = subprocess.run(command, input=lines, capture_output=True, text=True, check=False)
        if done.returncode:
            raise AssertionError(done.stderr[-2000:])

    def committed(self, topic, has_all=lambda values: True):
        """The values that Kafka's own consumer of committed records gets, once they are all there: on a busy machine it may
        give up before its first record."""
        deadline = time.monotonic() + PATIENCE
        while True:
            values = self.run("org.apache.kafka.tools.consumer.ConsoleConsumer", "--bootstrap-server", f"127.0.0.1:{self.port}",
                              "--topic", topic, "--from-beginning", "--timeout-ms", "10000",
                              "--isolation-level", "read_committed").splitlines()
            if has_all(values) or time.monotonic() > deadline:
                return values

    def codecs(self, topic):
        """The codecs of the batches of a topic, as they lie in its files."""
        files = sorted(map(str, (self.folder / "kafka").glob(f"{topic}-*/*.log")))
        out = self.run("org.apache.kafka.tools.DumpLogSegments", "--files", ",".join(files))
        return set(re.findall(r"compresscodec: (\w+)", out))

    def records(self):
        """The records of the topic, as they lie in its files: partition, names of headers, key and value of each."""
        files = sorted(map(str, (self.folder / "kafka").glob("readings-*/*.log")))
        out = self.run("org.apache.kafka.tools.DumpLogSegments", "--print-data-log", "--files", ",".join(files))
        partition, found = None, []
        for line in out.splitlines():
            if line.startswith("Dumping "):
                partition = pathlib.Path(line.removeprefix("Dumping ")).parent.name
            elif record := re.search(r"headerKeys: \[(.*?)\] key: (.*?) payload: (.*)$", line):
                found.append((partition, *record.groups()))
        return found


@unittest.skipUnless(JAVA and LIBRARIES.is_dir(), "there is no Kafka here: ./test optional installs it")
class IntoKafka(PipelineCase):
    def setUp(self):
        super().setUp()
        self.kafka = Kafka(self, self.folder)
        self.dead = self.folder / "dead.ndjson"

    def configure(self, url, more=""):
        self.config.write_text(
            f'[[sink]]\nname = "bus"\nkind = "kafka"\nurl = "{url}"\ntopic = "readings"\n{more}'
            'retry_min = "50ms"\nretry_max = "200ms"\n'
            f'[[sink]]\nname = "dead"\nkind = "file"\npath = "{self.dead}"\n'
            '[[pipeline]]\nname = "hot"\nfrom = ["plant/+/temp"]\nto = ["bus"]\ndead_letter = "dead"\n'
            "sql = \"SELECT payload.temp AS temp FROM 'plant/+/temp'\"\nkey = \"string(payload.temp)\"\n",
            encoding="utf-8",
        )

    def test_no_acknowledged_message_is_lost_by_kill_9(self):
        self.configure(f"kafka://127.0.0.1:1,127.0.0.1:{self.kafka.port}", 'parallel = 2\ntimeout = "5s"\n')
        self.kafka.start()
        acknowledged = self.kill_again_and_again(rounds=2)
        # Kafka dies while records are under way. The producer's numbers have it drop those that it has already.
        broker, books = self.broker(), Books(max(acknowledged) + 10_000)
        before = self.wait(broker, lambda it: it["state"] == "running")["out"]
        books.start(broker.port)
        self.wait(broker, lambda it: it["out"] >= before + 100)
        self.kafka.stop()
        self.wait(broker, lambda it: it["state"] == "retrying")
        books.stop()
        self.kafka.start()
        self.wait(broker, lambda it: it["state"] == "running" and it["waiting"] == 0)
        records = self.kafka.records()
        numbers = [number_of(value) for *_, value in records]
        self.assertEqual((acknowledged | books.acknowledged) - set(numbers), set())
        later = [number for number in numbers if number >= max(acknowledged) + 10_000]
        self.assertEqual(len(later), len(set(later)), "no record comes twice when Kafka dies")
        self.assertEqual({partition for partition, *_ in records}, {f"readings-{number}" for number in range(3)})
        self.assertEqual({headers for _, headers, *_ in records}, {"message_id,mqtt_topic,tidegate-hub-hops"})
        self.assertEqual({value for *_, value in records}, {f'{{"temp":{key}}}' for *_, key, _ in records})

    def test_exactly_once_through_kill_9_of_both(self):
        self.configure(f"kafka://127.0.0.1:{self.kafka.port}", 'exactly_once = true\nparallel = 2\ntimeout = "20s"\n')
        self.kafka.start()
        acknowledged = self.kill_again_and_again(rounds=3)
        broker, ends_lost = self.broker(), 0
        for number in range(1, 4):
            books = Books(max(acknowledged) + 10_000)
            before = self.wait(broker, lambda it: it["state"] == "running")["out"]
            books.start(broker.port)
            self.wait(broker, lambda it, before=before: it["out"] >= before + 100)
            self.kafka.stop()
            self.wait(broker, lambda it: it["state"] == "retrying")
            books.stop()
            acknowledged |= books.acknowledged
            self.kafka.start()
            self.wait(broker, lambda it: it["state"] == "running" and it["waiting"] == 0)
            ends_lost += self.kafka.has_lost_an_end()
        print(f"Kafka lost ends of transactions at {ends_lost} of {number} starts", file=sys.stderr)
        found = self.kafka.committed("readings", lambda values: acknowledged <= set(map(number_of, values)))
        numbers = [number_of(value) for value in found]
        self.assertLessEqual(acknowledged, set(numbers))
        self.assertEqual(len(numbers), len(set(numbers)), "no record is there twice")

    def test_a_record_that_a_transaction_cannot_take_is_a_dead_letter(self):
        self.configure(f"kafka://127.0.0.1:{self.kafka.port}", 'exactly_once = true\n')
        self.kafka.start()
        broker = self.broker()
        self.publish(broker, [{"temp": 1}, {"temp": "x" * 1_100_000}, {"temp": 3}])
        self.wait(broker, lambda it: (it["waiting"], it["out"], it["failed"]) == (0, 2, 1))
        values = self.kafka.committed("readings", lambda values: len(values) >= 2)
        self.assertEqual(sorted(values), ['{"temp":1}', '{"temp":3}'])

    def test_a_record_that_is_too_large_is_a_dead_letter(self):
        self.configure(f"kafka://127.0.0.1:{self.kafka.port}")
        self.kafka.start()
        broker = self.broker()
        self.publish(broker, [{"temp": 1}, {"temp": "x" * 1_100_000}, {"temp": 3}])
        self.wait(broker, lambda it: (it["waiting"], it["out"], it["failed"]) == (0, 2, 1))
        self.assertIn("too large", self.dead.read_text(encoding="utf-8"))
        self.assertEqual(sorted(value for *_, value in self.kafka.records()), ['{"temp":1}', '{"temp":3}'])

    def test_a_password_is_shown_over_tls_by_each_mechanism(self):
        self.kafka.start()
        ca = f'ca = "{self.kafka.certificates}/ca.pem"\n'
        self.configure(f"kafkas://node:wrong@127.0.0.1:{self.kafka.safe_port}", ca + 'sasl = "scram-sha-512"\n')
        broker = self.broker()
        self.publish(broker, [{"temp": 1}])
        status = self.wait(broker, lambda it: it["state"] == "retrying")
        self.assertIn("invalid credentials", status["error"])
        broker.kill()
        for number, mechanism in enumerate(["scram-sha-512", "plain"], 2):
            self.configure(f"kafkas://node:known@127.0.0.1:{self.kafka.safe_port}", f'{ca}sasl = "{mechanism}"\n')
            broker = self.broker()
            self.publish(broker, [{"temp": number}])
            self.wait(broker, lambda it: it["state"] == "running" and it["waiting"] == 0)
            broker.kill()
        self.assertEqual({value for *_, value in self.kafka.records()}, {f'{{"temp":{number}}}' for number in (1, 2, 3)})


@unittest.skipUnless(JAVA and LIBRARIES.is_dir(), "there is no Kafka here: ./test optional installs it")
class OutOfKafka(PipelineCase):
    def setUp(self):
        super().setUp()
        self.kafka = Kafka(self, self.folder)
        self.kafka.start()

    def member(self, name, steps=""):
        """Starts a process that takes its share of the topic into a file of its own."""
        config = self.folder / f"{name}.toml"
        config.write_text(
            f'[[source]]\nname = "orders"\nkind = "kafka"\nurl = "kafka://127.0.0.1:{self.kafka.port}"\ntopic = "orders"\n'
            f'[[sink]]\nname = "lines"\nkind = "file"\npath = "{self.folder / name}.ndjson"\n'
            f'[[pipeline]]\nname = "hot"\nsource = "orders"\nto = ["lines"]\n{steps}',
            encoding="utf-8",
        )
        broker = Broker("--config", str(config), "--data", str(self.folder / name))
        self.addCleanup(broker.close)
        return broker

    def lines(self, *names):
        files = [self.folder / f"{name}.ndjson" for name in names]
        return [json.loads(line) for file in files if file.is_file() for line in file.read_text().splitlines()]

    def wait_for(self, numbers, *names):
        """The lines of all, once they have these numbers."""
        deadline = time.monotonic() + PATIENCE
        while True:
            found = self.lines(*names)
            if numbers <= {line["payload"] for line in found}:
                return found
            self.assertLess(time.monotonic(), deadline, found[-3:])
            time.sleep(0.05)

    def test_no_record_is_lost_by_kill_9_and_keys_stay_in_order(self):
        self.kafka.produce("orders", [(f"k{number % 7}", number) for number in range(500)])
        broker = self.member("one")
        self.wait_for(set(range(500)), "one")
        broker.kill()
        self.kafka.produce("orders", [(f"k{number % 7}", number) for number in range(500, 900)])
        found, broker = self.lines("one"), self.member("one")
        self.wait(broker, lambda it: it["out"] > 0)
        broker.kill()
        broker = self.member("one")
        found = self.wait_for(set(range(900)), "one")
        self.assertEqual({line["topic"] for line in found}, {"orders"})
        self.assertEqual({line["user_properties"]["kafka_key"] for line in found}, {f"k{number}" for number in range(7)})
        self.assertEqual(len({line["id"] for line in found}), 900, "a record that comes again has its id")
        first = list({line["id"]: line["payload"] for line in reversed(found)}.values())[::-1]
        for key in range(7):
            of_key = [number for number in first if number % 7 == key]
            self.assertEqual(of_key, sorted(of_key))
        # One more record of each key: this process has read each partition when they are there.
        self.kafka.produce("orders", [(f"k{number % 7}", number) for number in range(900, 907)])
        self.wait_for(set(range(907)), "one")
        self.wait(broker, lambda it: it["waiting"] == 0)
        broker.process.terminate()
        self.assertEqual(broker.process.wait(PATIENCE), 0)
        # A process that stopped on request has committed its offsets.
        before = len(self.lines("one"))
        self.member("one")
        self.kafka.produce("orders", [("k0", 907)])
        self.wait_for({907}, "one")
        self.assertEqual(len(self.lines("one")), before + 1)

    def test_compressed_batches_of_each_codec_are_read(self):
        codecs = ["gzip", "snappy", "lz4", "zstd"]
        for step, codec in enumerate(codecs):
            self.kafka.produce("orders", [(f"k{number % 7}", step * 100 + number) for number in range(100)], codec)
        self.assertEqual(self.kafka.codecs("orders"), set(codecs))
        self.member("one")
        self.wait_for(set(range(400)), "one")

    def test_windows_have_each_record_through_kill_9(self):
        steps = 'every = "1s"\nsql = "SELECT payload, count(*) AS n FROM \'orders\' GROUP BY payload"\n'
        self.kafka.produce("orders", [(f"k{number % 7}", number) for number in range(300)])
        broker = self.member("one", steps)
        self.wait(broker, lambda it: it["in"] > 0)
        broker.kill()
        self.kafka.produce("orders", [(f"k{number % 7}", number) for number in range(300, 600)])
        self.member("one", steps)
        self.wait_for(set(range(600)), "one")

    def test_processes_of_a_group_share_the_partitions(self):
        self.kafka.produce("orders", [(f"k{number}", number) for number in range(100)])
        one = self.member("one")
        self.wait_for(set(range(100)), "one")
        two, names, number = self.member("two"), ("one", "two"), 100
        deadline = time.monotonic() + PATIENCE
        while not self.lines("two"):
            self.assertLess(time.monotonic(), deadline, "the second process gets nothing")
            self.kafka.produce("orders", [(f"k{step}", number + step) for step in range(20)])
            number += 20
            self.wait_for(set(range(number)), *names)
        one.kill()
        self.kafka.produce("orders", [(f"k{step}", number + step) for step in range(50)])
        found = self.wait_for(set(range(number + 50)), *names)
        self.assertGreaterEqual({line["payload"] for line in self.lines("two")}, set(range(number, number + 50)))
        self.assertEqual({line["payload"] for line in found}, set(range(number + 50)))
        self.wait(two, lambda it: it["state"] == "running")


if __name__ == "__main__":
    unittest.main()
