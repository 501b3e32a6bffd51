#!/usr/bin/env python3
"""What a message of QoS 1 costs in a pipeline, and how many of them one core carries.

    cargo build --release && bench/hub.py [--broker target/release/tidegate] [--seconds 8] [--rounds 3] [--core 0]

The broker has one shard and is pinned to one core. Publishers send records of 200 bytes, each with a window of unacknowledged messages.
There is: nothing that takes them, one MQTT subscriber of QoS 1, a pipeline that passes them through, and a pipeline that filters and
projects them by SQL (every message passes the filter). The pipelines' sink is a topic that nobody has subscribed to: no sink is
cheaper. A rate is what the generator reached; "of a core" is what one core would carry by the broker's CPU time of a message, which the
generator does not bound. Uses nothing but Python. `docs/performance.md` keeps results.
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

PUBLISHERS = 4
WINDOW = 512
SIZE = 200
TICKS = os.sysconf("SC_CLK_TCK")
PIPELINE = """
[[sink]]
name = "nowhere"
kind = "topic"
topic = "nowhere"
[[pipeline]]
name = "measured"
from = ["bench/#"]
{sql}
to = ["nowhere"]
"""
SQL = "sql = \"SELECT payload.temp AS temp, topic, clientid FROM 'bench/#' WHERE payload.temp > 30\""
CASES = {
    "nothing takes them": (None, False),
    "one subscriber": (None, True),
    "pass through": ("", False),
    "filter and project": (SQL, False),
}


def packet(kind, body):
    length, out = len(body), bytearray([kind])
    while True:
        length, digit = divmod(length, 128)
        out.append(digit | (0x80 if length else 0))
        if not length:
            return bytes(out) + body


def text(value):
    return struct.pack("!H", len(value)) + value.encode()


def read_packet(stream):
    kind = stream.read(1)[0]
    length = shift = 0
    while True:
        digit = stream.read(1)[0]
        length |= (digit & 0x7F) << shift
        shift += 7
        if digit < 0x80:
            return kind, stream.read(length)


def connect(port, name):
    client = socket.create_connection(("127.0.0.1", port))
    client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    client.sendall(packet(0x10, text("MQTT") + bytes([4, 2, 0, 0]) + text(name)))
    stream = client.makefile("rb")
    assert read_packet(stream) == (0x20, b"\0\0")
    return client, stream


class Publisher(threading.Thread):
    """Sends as long as its window has room, and counts acknowledgements."""

    def __init__(self, port, number):
        super().__init__(daemon=True)
        self.client, _ = connect(port, f"bench-{number}")
        self.acknowledged, self.over = 0, False
        record = json.dumps({"temp": 31, "unit": "C", "fill": ""})
        record = json.dumps({"temp": 31, "unit": "C", "fill": "x" * (SIZE - len(record))}).encode()
        topic = text(f"bench/{number}")
        self.packets = [packet(0x32, topic + struct.pack("!H", place) + record) for place in range(1, WINDOW + 1)]

    def run(self):
        sent = 0
        self.client.setblocking(False)
        rest, held = memoryview(b""), 0
        while not self.over:
            if not rest and sent - self.acknowledged <= WINDOW // 2:
                free = WINDOW - (sent - self.acknowledged)
                rest = memoryview(b"".join(self.packets[(sent + step) % WINDOW] for step in range(free)))
                sent += free
            readable, writable, _ = select.select([self.client], [self.client] if rest else [], [], 0.2)
            if writable:
                rest = rest[self.client.send(rest):]
            if readable:
                held += len(self.client.recv(1 << 16))
                # A PUBACK of MQTT 3.1.1 has four bytes.
                self.acknowledged += held // 4
                held %= 4
        self.client.close()


class Subscriber(threading.Thread):
    """Takes and acknowledges messages of QoS 1."""

    def __init__(self, port):
        super().__init__(daemon=True)
        self.client, self.stream = connect(port, "bench-subscriber")
        self.client.sendall(packet(0x82, struct.pack("!H", 1) + text("bench/#") + b"\1"))
        assert read_packet(self.stream)[0] == 0x90

    def run(self):
        try:
            while True:
                kind, body = read_packet(self.stream)
                if kind & 0x06:
                    length = struct.unpack_from("!H", body)[0]
                    self.client.sendall(b"\x40\2" + body[2 + length:4 + length])
        except (OSError, IndexError):
            pass


def cpu(process):
    fields = pathlib.Path(f"/proc/{process.pid}/stat").read_text(encoding="ascii").rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def measure(arguments, sql, subscribed):
    """Messages in a second, and the broker's CPU time of a message in microseconds."""
    with tempfile.TemporaryDirectory(prefix="tidegate-bench-") as folder:
        config = pathlib.Path(folder, "tidegate.toml")
        config.write_text(PIPELINE.format(sql=sql) if sql is not None else "", encoding="utf-8")
        command = ["taskset", "-c", str(arguments.core), arguments.broker, "-c", str(config), "--listen", "127.0.0.1:0"]
        command += ["--admin", "off", "--shards", "1", "--data", f"{folder}/data", "--log", "error"]
        broker = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        try:
            port = int(re.search(r"mqtt://127\.0\.0\.1:(\d+)", broker.stdout.readline())[1])
            if subscribed:
                Subscriber(port).start()
            publishers = [Publisher(port, number) for number in range(PUBLISHERS)]
            for publisher in publishers:
                publisher.start()
            # Warms up.
            time.sleep(1)
            begin = time.monotonic(), cpu(broker), sum(publisher.acknowledged for publisher in publishers)
            time.sleep(arguments.seconds)
            end = time.monotonic(), cpu(broker), sum(publisher.acknowledged for publisher in publishers)
            for publisher in publishers:
                publisher.over = True
            count = end[2] - begin[2]
            return count / (end[0] - begin[0]), (end[1] - begin[1]) / max(count, 1) * 1e6
        finally:
            broker.terminate()
            broker.wait(30)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--broker", default="target/release/tidegate")
    parser.add_argument("--seconds", type=float, default=8)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--core", type=int, default=0)
    arguments = parser.parse_args()
    found = {name: [] for name in CASES}
    for _ in range(arguments.rounds):
        for name, (sql, subscribed) in CASES.items():
            found[name].append(measure(arguments, sql, subscribed))
    one = statistics.median(cost for _, cost in found["one subscriber"])
    print("| case | messages/s | CPU of a message | of a core, messages/s | CPU against one subscriber |")
    print("| --- | --- | --- | --- | --- |")
    for name, rounds in found.items():
        rate, cost = (statistics.median(values) for values in zip(*rounds))
        print(f"| {name} | {rate:,.0f} | {cost:.1f} µs | {1e6 / max(cost, 1e-9):,.0f} | {cost / max(one, 1e-9):.2f} |")


if __name__ == "__main__":
    main()
