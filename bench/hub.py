#!/usr/bin/env python3
"""What a message of QoS 1 costs in a pipeline, and how many of them one core carries.

    cargo build --release && bench/hub.py [--broker target/release/tidegate] [--messages 400000] [--rate 50000] [--rounds 3] [--core 0] [--memory]

The broker has one shard and is pinned to one core. Publishers send records of 200 bytes at a rate that each case can carry: above it messages
would wait on disk, which costs more and is another measurement.
There is: nothing that takes them, one MQTT subscriber of QoS 1, the same with a session that the broker keeps on disk (as it keeps that
of a pipeline), a pipeline that passes them through, and a pipeline that filters and projects them by SQL (every message passes the
filter). The pipelines' sink discards records. A case ends when the receiver has the last message; full queues have publishers wait, so
none is dropped. "Of a core" is what one core would carry by the broker's CPU time of a message. Uses nothing but Python.
`docs/performance.md` keeps results.
"""

import argparse
import json
import os
import pathlib
import re
import select
import socket
import statistics
import struct
import subprocess
import tempfile
import threading
import time
import urllib.request

from mqtt_wire import free_ports, packet, text

PUBLISHERS = 4
WINDOW = 512
SIZE = 200
TICKS = os.sysconf("SC_CLK_TCK")
TOPIC_LEN = len("bench/0")
COMMON = '[queue]\noverflow = "block"\n'
PIPELINE = """
[[sink]]
name = "nowhere"
kind = "{sink}"
topic = "{topic}"
batch_messages = {batch}
[[pipeline]]
name = "measured"
from = ["bench/#"]
window = {window}
{keep}{sql}
to = ["nowhere"]
"""
SQL = "sql = \"SELECT payload.temp AS temp, topic, clientid FROM 'bench/#' WHERE payload.temp > 30\""
# The SQL of the pipeline, and whether the subscriber's session begins anew.
CASES = {
    "nothing takes them": (None, None),
    "one subscriber": (None, True),
    "one subscriber, kept on disk": (None, False),
    "pass through": ("", None),
    "filter and project": (SQL, None),
}


def read_packet(stream):
    kind = stream.read(1)[0]
    length = shift = 0
    while True:
        digit = stream.read(1)[0]
        length |= (digit & 0x7F) << shift
        shift += 7
        if digit < 0x80:
            return kind, stream.read(length)


def connect(port, name, clean=True):
    client = socket.create_connection(("127.0.0.1", port))
    client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    client.sendall(packet(0x10, text("MQTT") + bytes([4, 2 if clean else 0, 0, 0]) + text(name)))
    stream = client.makefile("rb")
    assert read_packet(stream) == (0x20, b"\0\0")
    return client, stream


class Publisher(threading.Thread):
    """Sends its share at its rate as long as its window has room, and counts acknowledgements."""

    def __init__(self, port, number, count, rate):
        super().__init__(daemon=True)
        self.client, _ = connect(port, f"bench-{number}")
        self.acknowledged, self.count, self.rate = 0, count, rate
        record = json.dumps({"temp": 31, "unit": "C", "fill": ""})
        record = json.dumps({"temp": 31, "unit": "C", "fill": "x" * (SIZE - len(record))}).encode()
        topic = text(f"bench/{number}")
        self.packets = [packet(0x32, topic + struct.pack("!H", place) + record) for place in range(1, WINDOW + 1)]

    def run(self):
        sent, begin = 0, time.monotonic()
        self.client.setblocking(False)
        rest, held = memoryview(b""), 0
        while self.acknowledged < self.count:
            due = min(int((time.monotonic() - begin) * self.rate) + 1, self.count)
            if not rest and sent < due:
                free = min(WINDOW - (sent - self.acknowledged), due - sent)
                rest = memoryview(b"".join(self.packets[(sent + step) % WINDOW] for step in range(free)))
                sent += free
            readable, writable, _ = select.select([self.client], [self.client] if rest else [], [], 0.002)
            if writable:
                rest = rest[self.client.send(rest):]
            if readable:
                data = self.client.recv(1 << 16)
                if not data:
                    raise ConnectionError("the broker has closed the connection of a publisher")
                held += len(data)
                # A PUBACK of MQTT 3.1.1 has four bytes.
                self.acknowledged += held // 4
                held %= 4


class Subscriber(threading.Thread):
    """Takes and acknowledges messages of QoS 1. All have the same length, so it needs no loop over them."""

    def __init__(self, port, clean):
        super().__init__(daemon=True)
        self.client, stream = connect(port, "bench-subscriber", clean)
        self.client.sendall(packet(0x82, struct.pack("!H", 1) + text("bench/#") + b"\1"))
        assert read_packet(stream)[0] == 0x90
        self.received = 0
        self.len = len(packet(0x32, bytes(2 + TOPIC_LEN + 2 + SIZE)))
        self.id_at = self.len - SIZE - 2

    def run(self):
        rest = b""
        while data := self.client.recv(1 << 18):
            data = rest + data
            count = len(data) // self.len
            data, rest = data[:count * self.len], data[count * self.len:]
            answers = bytearray(b"\x40\2\0\0" * count)
            answers[2::4], answers[3::4] = data[self.id_at::self.len], data[self.id_at + 1::self.len]
            self.client.sendall(answers)
            self.received += count


def cpu(process):
    fields = pathlib.Path(f"/proc/{process.pid}/stat").read_text(encoding="ascii").rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def delivered(admin_port):
    """Messages that the sink of the pipeline has."""
    with urllib.request.urlopen(f"http://127.0.0.1:{admin_port}/api/v1/hub", timeout=30) as answer:
        status = json.load(answer)["measured"]
    assert status["failed"] == status["dropped"] == status["filtered"] == 0, status
    return status["out"]


def measure(arguments, sql, clean):
    """Messages in a second, and the broker's CPU time of a message in microseconds."""
    count, admin = arguments.messages // PUBLISHERS, free_ports(1)[0]
    with tempfile.TemporaryDirectory(prefix="tidegate-bench-") as folder:
        config, text_of_all = pathlib.Path(folder, "tidegate.toml"), COMMON
        if sql is not None:
            topic = "nowhere" if arguments.sink == "topic" else ""
            text_of_all += PIPELINE.format(sink=arguments.sink, topic=topic, batch=arguments.window // 2,
                                           window=arguments.window, sql=sql,
                                           keep='keep = "memory"\n' if arguments.memory else "")
        config.write_text(text_of_all, encoding="utf-8")
        command = ["taskset", "-c", str(arguments.core), arguments.broker, "-c", str(config), "--listen", "127.0.0.1:0"]
        command += ["--admin", f"127.0.0.1:{admin}", "--shards", "1", "--log", "error"]
        command += [] if arguments.memory else ["--data", f"{folder}/data"]
        broker = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        try:
            port = int(re.search(r"mqtt://127\.0\.0\.1:(\d+)", broker.stdout.readline())[1])
            subscriber = Subscriber(port, clean) if clean is not None else None
            if subscriber:
                subscriber.start()
            publishers = [Publisher(port, number, count, arguments.rate / PUBLISHERS) for number in range(PUBLISHERS)]
            begin = time.monotonic(), cpu(broker)
            for publisher in publishers:
                publisher.start()
            for publisher in publishers:
                publisher.join()
            all_of_them = count * PUBLISHERS
            assert sum(publisher.acknowledged for publisher in publishers) == all_of_them
            while (sql is not None and delivered(admin) < all_of_them) or (
                    subscriber and subscriber.received < all_of_them):
                # The broker's work for a question counts, too.
                time.sleep(0.1)
            end = time.monotonic(), cpu(broker)
            return all_of_them / (end[0] - begin[0]), (end[1] - begin[1]) / all_of_them * 1e6
        finally:
            broker.terminate()
            broker.wait(30)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--broker", default="target/release/tidegate")
    parser.add_argument("--messages", type=int, default=400_000)
    parser.add_argument("--rate", type=int, default=50_000, help="messages in a second")
    parser.add_argument("--sink", choices=["discard", "topic"], default="discard")
    parser.add_argument("--window", type=int, default=1000, help="messages that a pipeline works on at once")
    parser.add_argument("--case", action="append", choices=list(CASES), help="only these")
    parser.add_argument("--memory", action="store_true", help="the broker has no data directory, and keeps sessions in memory")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--core", type=int, default=0)
    arguments = parser.parse_args()
    found = {name: [] for name in arguments.case or CASES}
    for _ in range(arguments.rounds):
        for name, rounds in found.items():
            rounds.append(measure(arguments, *CASES[name]))
    one = statistics.median(cost for _, cost in found.get("one subscriber") or [(0, 0)])
    print("| case | messages/s | CPU of a message | of a core, messages/s | CPU against one subscriber |")
    print("| --- | --- | --- | --- | --- |")
    for name, rounds in found.items():
        rate, cost = (statistics.median(values) for values in zip(*rounds))
        print(f"| {name} | {rate:,.0f} | {cost:.1f} µs | {1e6 / max(cost, 1e-9):,.0f} | {cost / max(one, 1e-9):.2f} |")


if __name__ == "__main__":
    main()
