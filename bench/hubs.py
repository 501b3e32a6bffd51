#!/usr/bin/env python3
"""Pipelines of Tidegate beside what a user would build instead: a collector as an MQTT subscriber in front of the same sink.

    cargo build --release && bench/hubs.py [--broker target/release/tidegate] [--telegraf telegraf] [--benthos benthos]
        [--sinks postgres,nats,kafka] [--messages 200000] [--rate 1000] [--seconds 20] [--rounds 1]

The contenders: a pipeline in the broker, `tidegate hub` beside the broker, Telegraf and Benthos beside the broker. The broker is
Tidegate with a data directory for all of them, the session of each collector is kept, and messages of 200 bytes have QoS 1. Each
contender decodes JSON and passes some fields on. There are three measurements:

- flood: publishers send as fast as they are acknowledged. CPU is that of the broker and the collector until the sink has all
  messages. "Of a core" is what one core would carry by that time.
- latency: at a steady rate, from the publisher to the sink. At NATS that is a subscriber of the stream's subject; at PostgreSQL
  it is the time at which the row is inserted, at Kafka the one at which the record is appended (in whole milliseconds).
- loss: the process that writes to the sink is killed with SIGKILL under load and started again. Lost are messages that were
  acknowledged to the publisher and that the sink does not have when nothing has come for 15 s.

A batch of Tidegate is what has come while the one before was written (`batch_time = "0ms"`). PostgreSQL, nats-server and Kafka (one node, as `./test kafka` installs it) run with
their defaults; their CPU does not count. A contender whose program is not there is left out.
Uses nothing but Python and `psql`. `docs/performance.md` keeps results.
"""

import argparse
import base64
import contextlib
import glob
import json
import os
import pathlib
import re
import select
import shutil
import signal
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

from hub import connect, cpu, free_port, packet, text

SIZE = 200
WINDOW = 500
PUBLISHERS = 4
# Seconds without progress after which a sink counts as complete.
QUIET = 15
PATIENCE = 120
BROKER = '[queue]\noverflow = "block"\nmax_messages = 10000000\nmax_bytes = "4GiB"\n'
PIPELINE = """
[[sink]]
name = "measured"
{sink}
batch_messages = 1000
batch_time = "0ms"
[[pipeline]]
name = "measured"
window = 4000
sql = "SELECT payload.n AS n, payload.sent AS sent, payload.temp AS temp, topic FROM 'bench/#'"
to = ["measured"]
"""
TELEGRAF = """
[agent]
interval = "1s"
flush_interval = "100ms"
flush_jitter = "0s"
metric_batch_size = 1000
metric_buffer_limit = 1000000
omit_hostname = true
quiet = true
[[inputs.mqtt_consumer]]
servers = ["tcp://127.0.0.1:{port}"]
topics = ["bench/#"]
qos = 1
persistent_session = true
client_id = "telegraf"
max_undelivered_messages = 4000
data_format = "json"
"""
BENTHOS = """
http: {{ enabled: false }}
logger: {{ level: ERROR }}
shutdown_timeout: 5s
input:
  mqtt:
    urls: [ "tcp://127.0.0.1:{port}" ]
    topics: [ "bench/#" ]
    client_id: benthos
    qos: 1
    clean_session: false
pipeline:
  threads: 1
  processors:
    - mapping: |
        root.n = this.n
        root.sent = this.sent
        root.temp = this.temp
        root.topic = @mqtt_topic
"""


def wait_until(holds, what):
    deadline = time.monotonic() + PATIENCE
    while not holds():
        if time.monotonic() > deadline:
            raise TimeoutError(what)
        time.sleep(0.05)


def is_open(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


class Process:
    """A program with its output in a file, which is killed at the end."""

    def __init__(self, command, log):
        with open(log, "ab") as out:
            self.process = subprocess.Popen(command, stdout=out, stderr=out)
        self.used = 0.0

    def cpu(self):
        return cpu(self.process)

    def kill(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
        self.process.wait()


class Postgres:
    """A server of its own, with the table of each contender."""

    TABLE = "CREATE TABLE {name} ({more} n double precision, sent double precision, temp double precision, topic text, added timestamptz DEFAULT clock_timestamp())"

    def __init__(self, folder):
        initdb = shutil.which("initdb") or next(iter(sorted(glob.glob("/usr/lib/postgresql/*/bin/initdb"))), None)
        if not initdb:
            raise FileNotFoundError("there is no PostgreSQL here")
        self.programs, self.folder, self.port = pathlib.Path(initdb).resolve().parent, folder / "postgres", free_port()
        self.folder.mkdir()
        self.is_root = os.getuid() == 0
        if self.is_root:
            folder.chmod(0o755)
            shutil.chown(self.folder, "nobody")
        self.run("initdb", "-D", self.folder / "data", "-U", "hub", "-A", "trust", "--no-sync")
        options = f"-p {self.port} -k {self.folder} -c listen_addresses=127.0.0.1"
        self.run("pg_ctl", "-D", self.folder / "data", "-w", "-l", self.folder / "log", "-o", options, "start")
        self.url = f"postgres://hub@127.0.0.1:{self.port}/postgres"

    def run(self, program, *arguments):
        command = [str(self.programs / program), *map(str, arguments)]
        if self.is_root:
            command = ["setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups", *command]
        done = subprocess.run(command, capture_output=True, text=True, cwd="/", check=False)
        if done.returncode:
            raise RuntimeError(f"{program}: {done.stderr}")
        return done.stdout

    def ask(self, query):
        return self.run("psql", "-h", self.folder, "-p", self.port, "-U", "hub", "-d", "postgres", "-qAtc", query).split()

    def begin(self, contender):
        for name in ("mqtt_consumer", "readings"):
            self.ask(f"DROP TABLE IF EXISTS {name}")
        self.table = "mqtt_consumer" if contender == "telegraf" else "readings"
        more = {"telegraf": '"time" timestamptz,', "benthos": ""}.get(contender, "message_id text PRIMARY KEY,")
        self.ask(self.TABLE.format(name=self.table, more=more))

    def end(self):
        pass

    def count(self):
        return int(self.ask(f"SELECT count(*) FROM {self.table}")[0])

    def numbers(self):
        return [int(float(word)) for word in self.ask(f"SELECT n FROM {self.table}")]

    def latencies(self):
        """Seconds."""
        query = f"SELECT extract(epoch FROM added) - sent / 1e6 FROM {self.table} WHERE sent > 0"
        return [float(word) for word in self.ask(query)]

    def tidegate(self):
        return f'kind = "postgres"\nurl = "{self.url}"\ntable = "readings"'

    def telegraf(self):
        return f'[[outputs.postgresql]]\nconnection = "host=127.0.0.1 port={self.port} user=hub dbname=postgres sslmode=disable"\n'

    def benthos(self):
        return ("output:\n  sql_insert:\n    driver: postgres\n"
                f'    dsn: "{self.url}?sslmode=disable"\n    table: readings\n    columns: [ n, sent, temp, topic ]\n'
                "    args_mapping: root = [ this.n, this.sent, this.temp, this.topic ]\n"
                "    max_in_flight: 1\n    batching: { count: 1000, period: 10ms }\n")

    def stop(self):
        self.run("pg_ctl", "-D", self.folder / "data", "-m", "immediate", "-w", "stop")


class Nats:
    """A server of its own with JetStream, and a subscriber that notes when each message has come."""

    SUBJECT = "out"

    def __init__(self, folder):
        installed = pathlib.Path(__file__).resolve().parent.parent / "target" / "servers" / "bin" / "nats-server"
        program = str(installed) if installed.exists() else shutil.which("nats-server")
        if not program:
            raise FileNotFoundError("there is no nats-server here")
        self.port, self.seen, self.watcher = free_port(), [], None
        command = [program, "-js", "-a", "127.0.0.1", "-p", str(self.port), "-sd", str(folder / "jetstream")]
        self.server = Process(command, folder / "nats.log")
        wait_until(lambda: is_open(self.port), "nats-server")

    def open(self, *words):
        client = socket.create_connection(("127.0.0.1", self.port))
        client.sendall(b'CONNECT {"verbose":false}\r\n' + b"".join(words))
        return client, client.makefile("rb")

    @staticmethod
    def message(client, lines):
        while True:
            line = lines.readline()
            if line.startswith(b"PING"):
                client.sendall(b"PONG\r\n")
            elif line.startswith(b"MSG "):
                return lines.read(int(line.split()[-1]) + 2)[:-2]
            elif not line:
                return None

    def ask(self, what, request):
        client, lines = self.open(b"SUB answers 1\r\n")
        with client, lines:
            body = json.dumps(request).encode()
            client.sendall(f"PUB $JS.API.STREAM.{what} answers {len(body)}\r\n".encode() + body + b"\r\n")
            return json.loads(self.message(client, lines))

    def begin(self, _contender):
        self.ask("DELETE.BENCH", {})
        made = self.ask("CREATE.BENCH", {"name": "BENCH", "subjects": [f"{self.SUBJECT}.>"], "storage": "file",
                                         "duplicate_window": 120_000_000_000})
        assert "error" not in made, made
        self.seen = []
        self.watcher = self.open(f"SUB {self.SUBJECT}.> 1\r\n".encode())
        threading.Thread(target=self._watch, args=(*self.watcher, self.seen), daemon=True).start()

    def _watch(self, client, lines, seen):
        with contextlib.suppress(OSError, ValueError):
            while (body := self.message(client, lines)) is not None:
                seen.append((time.time(), body))

    def end(self):
        self.watcher[0].shutdown(socket.SHUT_RDWR)

    def count(self):
        return self.ask("INFO.BENCH", {})["state"]["messages"]

    @staticmethod
    def fields(body):
        value = json.loads(body)
        return value.get("fields", value)

    def numbers(self):
        """What the stream has, not what the subscriber has seen."""
        last, numbers = self.ask("INFO.BENCH", {})["state"]["last_seq"], []
        client, lines = self.open(b"SUB answers 1\r\n")
        with client, lines:
            for place in range(1, last + 1):
                body = json.dumps({"seq": place}).encode()
                client.sendall(f"PUB $JS.API.STREAM.MSG.GET.BENCH answers {len(body)}\r\n".encode() + body + b"\r\n")
                stored = json.loads(self.message(client, lines))
                assert "message" in stored, (place, stored)
                numbers.append(int(self.fields(base64.b64decode(stored["message"]["data"]))["n"]))
        return numbers

    def latencies(self):
        return [at - self.fields(body)["sent"] / 1e6 for at, body in list(self.seen)]

    def tidegate(self):
        return f'kind = "nats"\nurl = "nats://127.0.0.1:{self.port}"\nstream = "BENCH"\nsubject = "{self.SUBJECT}"'

    def telegraf(self):
        return (f'[[outputs.nats]]\nservers = ["nats://127.0.0.1:{self.port}"]\nsubject = "{self.SUBJECT}.telegraf"\n'
                'data_format = "json"\n[outputs.nats.jetstream]\nname = "BENCH"\n'
                f'subjects = ["{self.SUBJECT}.>"]\ndisable_stream_creation = true\n')

    def benthos(self):
        return (f'output:\n  nats_jetstream:\n    urls: [ "nats://127.0.0.1:{self.port}" ]\n'
                f"    subject: {self.SUBJECT}.benthos\n    max_in_flight: 1000\n")

    def stop(self):
        self.server.kill()


class Kafka:
    """A node of its own, and one of Kafka's consumers, which says when each record was appended."""

    TOPIC = "bench"

    LIBRARIES = pathlib.Path(__file__).resolve().parent.parent / "target" / "servers" / "kafka" / "lib"

    def __init__(self, folder):
        if not self.LIBRARIES.is_dir() or not shutil.which("java"):
            raise FileNotFoundError("there is no Kafka here: ./test kafka installs it")
        self.port, controller = free_port(), free_port()
        self.seen = []
        properties = folder / "kafka.properties"
        internal = ["offsets.topic.replication.factor", "transaction.state.log.replication.factor", "transaction.state.log.min.isr",
                    "share.coordinator.state.topic.replication.factor", "share.coordinator.state.topic.min.isr"]
        properties.write_text(
            "process.roles=broker,controller\nnode.id=1\ncontroller.listener.names=CONTROLLER\n"
            f"controller.quorum.voters=1@127.0.0.1:{controller}\nlog.message.timestamp.type=LogAppendTime\n"
            f"listeners=PLAINTEXT://127.0.0.1:{self.port},CONTROLLER://127.0.0.1:{controller}\nlog.dirs={folder}/kafka\n"
            + "".join(f"{key}=1\n" for key in internal), encoding="utf-8")
        self.run("kafka.tools.StorageTool", "format", "-t", "MkU3OEVBNTcwNTJENDM2Qg", "-c", properties)
        self.server = Process(self.command("kafka.Kafka", properties), folder / "kafka.log")
        log = folder / "kafka.log"
        wait_until(lambda: "Kafka Server started" in log.read_text(encoding="utf-8"), "Kafka")
        at = ["--bootstrap-server", f"127.0.0.1:{self.port}", "--topic", self.TOPIC]
        self.run("org.apache.kafka.tools.TopicCommand", *at, "--create", "--partitions", 1)
        command = self.command("org.apache.kafka.tools.consumer.ConsoleConsumer", *at, "--from-beginning", "--formatter-property",
                               "print.timestamp=true")
        self.consumer = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        threading.Thread(target=self._watch, args=(self.consumer.stdout,), daemon=True).start()
        # The consumer takes seconds to start; its first record shows that it has.
        self.run("org.apache.kafka.tools.ConsoleProducer", *at, text="first\n")
        wait_until(self.count, "the consumer of Kafka")

    def command(self, tool, *arguments):
        options = ["-Xms128m", "-Xmx512m", "-Dorg.slf4j.simpleLogger.defaultLogLevel=info"]
        return ["java", *options, "-cp", f"{self.LIBRARIES}/*", tool, *map(str, arguments)]

    def run(self, tool, *arguments, text=""):
        done = subprocess.run(self.command(tool, *arguments), input=text, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"{tool}: {done.stderr[-2000:]}")

    def begin(self, _contender):
        # What a contender before has sent comes first.
        count = -1
        while count != len(self.seen):
            count = len(self.seen)
            time.sleep(1)
        self.seen.clear()

    def _watch(self, lines):
        for line in lines:
            time_of, _, body = line.partition("\t")
            if not body:
                # A record of Telegraf ends with a newline of its own.
                continue
            self.seen.append((int(time_of.removeprefix("LogAppendTime:")) / 1e3, body))

    def end(self):
        pass

    def count(self):
        return len(self.seen)

    def numbers(self):
        return [int(Nats.fields(body)["n"]) for _, body in list(self.seen)]

    def latencies(self):
        return [at - Nats.fields(body)["sent"] / 1e6 for at, body in list(self.seen)]

    def tidegate(self):
        return f'kind = "kafka"\nurl = "kafka://127.0.0.1:{self.port}"\ntopic = "{self.TOPIC}"'

    def telegraf(self):
        return (f'[[outputs.kafka]]\nbrokers = ["127.0.0.1:{self.port}"]\ntopic = "{self.TOPIC}"\nrequired_acks = -1\n'
                'data_format = "json"\n')

    def benthos(self):
        return (f'output:\n  kafka:\n    addresses: [ "127.0.0.1:{self.port}" ]\n    topic: {self.TOPIC}\n    ack_replicas: true\n'
                "    max_in_flight: 1\n    batching: { count: 1000, period: 10ms }\n")

    def stop(self):
        self.consumer.kill()
        self.consumer.wait()
        self.server.kill()


class Publisher(threading.Thread):
    """Sends numbered messages at QoS 1, as fast as they are acknowledged or at a rate, until all are or the broker is gone."""

    def __init__(self, port, number, numbers, rate=None):
        super().__init__(daemon=True)
        self.client, _ = connect(port, f"bench-{number}")
        self.topic, self.numbers, self.rate, self.acknowledged = text(f"bench/{number}"), numbers, rate, 0

    def payload(self, number):
        sent = time.time_ns() // 1000 if self.rate else 0
        start = f'{{"n":{number},"sent":{sent},"temp":31.5,"fill":"'
        return (start + "x" * (SIZE - len(start) - 2) + '"}').encode()

    def run(self):
        sent, begin, rest, held = 0, time.monotonic(), memoryview(b""), 0
        self.client.setblocking(False)
        with contextlib.suppress(ConnectionError):
            while self.acknowledged < len(self.numbers):
                due = len(self.numbers)
                if self.rate:
                    due = min(due, int((time.monotonic() - begin) * self.rate) + 1)
                if not rest and sent < due:
                    free = min(WINDOW - (sent - self.acknowledged), due - sent, 100)
                    ids = range(sent, sent + free)
                    rest = memoryview(b"".join(
                        packet(0x32, self.topic + struct.pack("!H", place % 60_000 + 1) + self.payload(self.numbers[place])) for place in ids))
                    sent += free
                readable, writable, _ = select.select([self.client], [self.client] if rest else [], [], 0.002)
                if writable:
                    rest = rest[self.client.send(rest):]
                if readable:
                    data = self.client.recv(1 << 16)
                    if not data:
                        return
                    held += len(data)
                    self.acknowledged += held // 4
                    held %= 4

    def confirmed(self):
        """Acknowledgements come in the order of the messages."""
        return self.numbers[:self.acknowledged]


class Contender:
    """A broker, and the process that writes to the sink: the broker itself, or one beside it."""

    def __init__(self, name, programs, sink, folder):
        self.name, self.programs, self.sink, self.folder = name, programs, sink, folder
        self.port, self.admin = free_port(), free_port()
        self.collector, self.broker, self.starts = None, None, 0
        folder.mkdir()
        pipeline = PIPELINE.format(sink=sink.tidegate())
        (folder / "broker.toml").write_text(BROKER + (pipeline if name == "in the broker" else ""), encoding="utf-8")
        (folder / "hub.toml").write_text(pipeline, encoding="utf-8")
        (folder / "telegraf.conf").write_text(TELEGRAF.format(port=self.port) + sink.telegraf(), encoding="utf-8")
        (folder / "benthos.yaml").write_text(BENTHOS.format(port=self.port) + sink.benthos(), encoding="utf-8")
        try:
            self.start_broker()
            if name != "in the broker":
                self.start_collector()
        except BaseException:
            self.stop()
            raise

    def start_broker(self):
        command = [self.programs["tidegate"], "-c", self.folder / "broker.toml", "--listen", f"127.0.0.1:{self.port}"]
        command += ["--admin", f"127.0.0.1:{self.admin}", "--shards", "1", "--data", self.folder / "data", "--log", "error"]
        self.broker = Process(command, self.folder / "broker.log")
        # The port is open before the pipeline has its subscription.
        log = self.folder / "broker.log"
        wait_until(lambda: log.read_text(encoding="utf-8").count(" ready: ") > self.starts, "the broker")
        self.starts += 1

    def start_collector(self):
        tidegate = [self.programs["tidegate"], "hub", "-c", self.folder / "hub.toml", "--broker", f"mqtt://127.0.0.1:{self.port}",
                    "--member", "one", "--admin", "off"]
        command = {
            "beside the broker": tidegate,
            "telegraf": [self.programs["telegraf"], "--config", self.folder / "telegraf.conf"],
            "benthos": [self.programs["benthos"], "-c", self.folder / "benthos.yaml"],
        }[self.name]
        self.collector = Process(command, self.folder / "collector.log")
        wait_until(self.is_subscribed, f"the subscription of {self.name}")

    def is_subscribed(self):
        if self.collector.process.poll() is not None:
            raise RuntimeError((self.folder / "collector.log").read_text(encoding="utf-8")[-2000:])
        with urllib.request.urlopen(f"http://127.0.0.1:{self.admin}/metrics", timeout=30) as answer:
            metrics = answer.read().decode()
        kinds = re.findall(r"^mqtt_subscriptions\{[^}]*\} (\d+)", metrics, re.MULTILINE)
        return sum(map(int, kinds)) > 0

    def cpu(self):
        """CPU time of the broker and the collector so far, seconds."""
        return self.broker.cpu() + (self.collector.cpu() if self.collector else 0)

    def strike(self):
        """Kills the process that writes to the sink."""
        (self.collector or self.broker).kill()

    def restart(self):
        if self.collector:
            self.start_collector()
        else:
            self.start_broker()

    def stop(self):
        for process in (self.collector, self.broker):
            if process:
                process.kill()


def publish(port, numbers, rate=None):
    """Publishers that share the numbers, running."""
    publishers = [Publisher(port, place, numbers[place::PUBLISHERS], rate and rate / PUBLISHERS) for place in range(PUBLISHERS)]
    for publisher in publishers:
        publisher.start()
    return publishers


def settled(sink, wanted):
    """Waits until the sink has as many messages, or nothing comes any more."""
    count, changed = sink.count(), time.monotonic()
    while count < wanted and time.monotonic() - changed < QUIET:
        time.sleep(0.2)
        now = sink.count()
        if now != count:
            count, changed = now, time.monotonic()
    return count


def flood(contender, sink, given):
    begin = time.monotonic(), contender.cpu()
    publishers = publish(contender.port, range(given.messages))
    for publisher in publishers:
        publisher.join()
    count = settled(sink, given.messages)
    took, used = time.monotonic() - begin[0], contender.cpu() - begin[1]
    if count < given.messages:
        return {"flood": f"{count:,} of {given.messages:,} came"}
    return {"messages/s": given.messages / took, "CPU, µs": used / given.messages * 1e6, "of a core, messages/s": given.messages / used}


def latency(contender, sink, given):
    count = given.rate * given.seconds
    for publisher in publish(contender.port, range(count), given.rate):
        publisher.join()
    settled(sink, count)
    times = sorted(sink.latencies())
    # The first tenth warms up.
    times = sorted(times[len(times) // 10:]) if len(times) < 20 else times
    return {"p50, ms": statistics.median(times) * 1e3, "p99, ms": times[int(len(times) * 0.99)] * 1e3}


def loss(contender, sink, given):
    half = given.rate * given.seconds // 2
    publishers = publish(contender.port, range(half), given.rate * 2)
    wait_until(lambda: sum(publisher.acknowledged for publisher in publishers) > half // 2, "half of the messages")
    contender.strike()
    for publisher in publishers if not contender.collector else ():
        publisher.join()
    contender.restart()
    for publisher in publishers:
        publisher.join()
    publishers += publish(contender.port, range(half, 2 * half), given.rate * 2)
    for publisher in publishers:
        publisher.join()
    acknowledged = {number for publisher in publishers for number in publisher.confirmed()}
    settled(sink, len(acknowledged) + WINDOW * PUBLISHERS)
    numbers = sink.numbers()
    return {"acknowledged": len(acknowledged), "lost": len(acknowledged - set(numbers)), "twice": len(numbers) - len(set(numbers))}


def shown(value):
    if isinstance(value, float):
        return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--broker", default="target/release/tidegate")
    parser.add_argument("--telegraf", default="telegraf", help="built by `./test e2e`, or from the path")
    parser.add_argument("--benthos", default="benthos")
    parser.add_argument("--sinks", default="postgres,nats")
    parser.add_argument("--only", default="in the broker,beside the broker,telegraf,benthos")
    parser.add_argument("--messages", type=int, default=200_000, help="messages of the flood")
    parser.add_argument("--rate", type=int, default=1000, help="messages in a second, for latency and loss")
    parser.add_argument("--seconds", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=1)
    given = parser.parse_args()
    programs = {"tidegate": shutil.which(given.broker), "telegraf": shutil.which(given.telegraf), "benthos": shutil.which(given.benthos)}
    if not programs["tidegate"]:
        sys.exit(f"there is no {given.broker}")
    columns = ["messages/s", "CPU, µs", "of a core, messages/s", "p50, ms", "p99, ms", "acknowledged", "lost", "twice"]
    for sink_name in given.sinks.split(","):
        rows = {}
        with tempfile.TemporaryDirectory(prefix="tidegate-bench-", ignore_cleanup_errors=True) as folder:
            folder = pathlib.Path(folder)
            sink = {"postgres": Postgres, "nats": Nats, "kafka": Kafka}[sink_name](folder)
            try:
                for place in range(given.rounds):
                    for name in given.only.split(","):
                        if name in programs and not programs[name]:
                            print(f"without {name}: there is no such program", file=sys.stderr)
                            continue
                        for measure in (flood, latency, loss):
                            sink.begin(name)
                            contender = Contender(name, programs, sink, folder / f"{place}-{name.replace(' ', '-')}-{measure.__name__}")
                            try:
                                for key, value in measure(contender, sink, given).items():
                                    rows.setdefault(name, {}).setdefault(key, []).append(value)
                            finally:
                                contender.stop()
                                sink.end()
                            print(name, measure.__name__, {key: shown(values[-1]) for key, values in rows[name].items()}, file=sys.stderr, flush=True)
            finally:
                sink.stop()
        print(f"\n| {sink_name} | " + " | ".join(columns) + " |\n|" + " --- |" * (len(columns) + 1))
        for name, values in rows.items():
            cells = [shown(statistics.median(values[key])) if key in values else "–" for key in columns]
            print(f"| {name} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
