"""Moves a session with a long queue to another node, and measures what its client notices.

    bench/backlog.py TIDEGATE [--messages 1000000] [--bytes 100] [--rate 5000] [--absent]

A cluster of two nodes with data directories shares a directory as its bus, which the first node serves. A session with its
home at the second node gets MESSAGES messages of BYTES bytes at QoS 1 while its client is away. Then the client connects to
the first node and reads, and SIGTERM drains the second node; with --absent the client connects only after SIGTERM. It reads
RATE messages a second until the drained node has ended, so that the queue is long when it moves, then as fast as it can. "away"
is the longest time from SIGTERM on in which the client got no message although some were left, connections included. Memory
is the peak of each process (VmHWM) before and after the move.
"""

import argparse
import collections
import json
import os
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import threading
import time
import urllib.request

from mqtt_wire import free_ports, packet, text

TOPIC = b"backlog/t"
# PUBLISH packets that are sent ahead of their acknowledgements.
WINDOW = 1_000


class Connection:
    """A connection of MQTT 3.1.1. `present` says whether the session was there."""

    def __init__(self, port, client_id, clean):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=60)
        self.input, self.at = b"", 0
        self.socket.sendall(packet(0x10, text(b"MQTT") + bytes([4, 2 if clean else 0]) + b"\0\0" + text(client_id)))
        first, body = self.read()
        if first != 0x20 or body[1] != 0:
            self.socket.close()
            raise ConnectionError(f"CONNACK {body[1]}")
        self.present = body[0] & 1

    def fill(self):
        more = self.socket.recv(1 << 18)
        if not more:
            raise ConnectionError("closed")
        self.input, self.at = self.input[self.at :] + more, 0

    def read(self):
        """The next packet: its first byte and its body."""
        while True:
            length = shift = 0
            for at in range(self.at + 1, min(len(self.input), self.at + 5)):
                length |= (self.input[at] & 0x7F) << shift
                shift += 7
                if self.input[at] < 0x80:
                    if len(self.input) >= at + 1 + length:
                        first, body = self.input[self.at], self.input[at + 1 : at + 1 + length]
                        self.at = at + 1 + length
                        return first, body
                    break
            self.fill()

    def close(self):
        self.socket.sendall(b"\xe0\0")
        self.socket.close()


class Reader:
    """Reads the session to its end on one connection after another, and notes when messages came."""

    def __init__(self, port, client_id, messages, rate):
        self.port, self.client_id, self.messages = port, client_id, messages
        # Messages per second; None for as many as come.
        self.rate = rate
        self.got, self.twice, self.disorder, self.last_number = bytearray(messages), 0, 0, -1
        self.count, self.connections, self.attempts = 0, 0, collections.Counter()
        # Since when the longest gap counts, the last message, and that gap, seconds.
        self.counts_from, self.last, self.longest = None, None, 0.0
        self.begun = threading.Event()

    def read(self):
        deadline = time.monotonic() + 600
        while self.count < self.messages and time.monotonic() < deadline:
            try:
                connection = Connection(self.port, self.client_id, False)
                if not connection.present:
                    self.attempts["no session"] += 1
                self.connections += 1
                self.read_all(connection)
            except OSError as error:
                self.attempts[str(error)] += 1
                time.sleep(0.01)

    def read_all(self, connection):
        connection.socket.settimeout(30)
        answers = bytearray()
        while self.count < self.messages:
            if answers and connection.at == len(connection.input):
                connection.socket.sendall(answers)
                answers.clear()
            first, body = connection.read()
            if first >> 4 != 3:
                continue
            at = 2 + len(TOPIC)
            answers += b"\x40\x02" + body[at : at + 2]
            self.note(int(body[at + 2 : at + 12]))
            if self.rate and self.count % 100 == 0:
                connection.socket.sendall(answers)
                answers.clear()
                time.sleep(100 / self.rate)
        connection.socket.sendall(answers)
        connection.close()

    def note(self, number):
        now = time.monotonic()
        if self.counts_from is not None:
            self.longest = max(self.longest, now - max(self.counts_from, self.last or 0))
        self.last = now
        self.begun.set()
        if self.got[number]:
            self.twice += 1
            return
        self.got[number] = 1
        self.count += 1
        self.disorder += number < self.last_number
        self.last_number = max(self.last_number, number)


class Cluster:
    def __init__(self, tidegate):
        self.folder = tempfile.mkdtemp(prefix="backlog-")
        self.tidegate, self.nodes = tidegate, []
        ports = free_ports(4)
        self.ports, self.admins = ports[:2], ports[2:]

    def start(self, at):
        log = open(os.path.join(self.folder, f"{at}.log"), "w")
        command = [self.tidegate, "-l", f"127.0.0.1:{self.ports[at]}", "--admin", f"127.0.0.1:{self.admins[at]}"]
        command += ["--node", "ab"[at], "--bus", f"embedded://{self.folder}/bus", "--data", f"{self.folder}/{at}"]
        for setting in ["cluster.settle=1s", "cluster.bus_max_bytes=16GiB", "mirror.max_bytes=4GiB"]:
            command += ["--set", setting]
        for setting in ["queue.max_messages=10000000", "queue.max_bytes=8GiB"]:
            command += ["--set", setting]
        self.nodes.append(subprocess.Popen(command, stdout=log, stderr=log))

    def get(self, at, path):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.admins[at]}{path}", timeout=10) as answer:
            return answer.read()

    def wait_ready(self):
        while True:
            try:
                views = [json.loads(self.get(at, "/api/v1/cluster")) for at in range(2)]
                if all(view["served"] == 512 and not view["moves"] for view in views):
                    return
            except OSError:
                pass
            time.sleep(0.1)

    def home(self, client_id):
        """The node that has the session of a client."""
        listed = json.loads(self.get(0, f"/api/v1/clients?containing={client_id}"))
        return next(entry["node"] for entry in listed["clients"] if entry["client"] == client_id)

    def peak(self, at):
        with open(f"/proc/{self.nodes[at].pid}/status") as status:
            return next(int(line.split()[1]) // 1024 for line in status if line.startswith("VmHWM"))

    def end(self):
        for node in self.nodes:
            node.kill()
            node.wait()
        shutil.rmtree(self.folder)


def subscribed(cluster):
    """A client id whose home is the second node, and that has a subscription."""
    for number in range(100):
        client_id = f"reader-{number}"
        connection = Connection(cluster.ports[0], client_id.encode(), False)
        connection.socket.sendall(packet(0x82, b"\0\1" + text(TOPIC) + b"\1"))
        connection.read()
        connection.close()
        if cluster.home(client_id) == "b":
            return client_id
        connection = Connection(cluster.ports[0], client_id.encode(), True)
        connection.close()
    raise SystemExit("no client of a hundred has its home at the second node")


def fill(cluster, messages, size):
    connection = Connection(cluster.ports[1], b"writer", True)
    padding = b"x" * (size - 10)
    sent = answered = 0
    while answered < messages:
        count = min(WINDOW - (sent - answered), messages - sent, 250)
        if count:
            ids = ((sent + at) % 65_535 + 1 for at in range(count))
            bodies = (text(TOPIC) + struct.pack(">H", id) + b"%010d" % (sent + at) + padding for at, id in enumerate(ids))
            connection.socket.sendall(b"".join(packet(0x32, body) for body in bodies))
            sent += count
        while answered < sent and (sent - answered >= WINDOW or sent == messages):
            connection.read()
            answered += 1
    connection.close()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("tidegate")
    parser.add_argument("--messages", type=int, default=1_000_000)
    parser.add_argument("--bytes", type=int, default=100)
    parser.add_argument("--rate", type=int, default=5_000)
    parser.add_argument("--absent", action="store_true")
    arguments = parser.parse_args()
    cluster = Cluster(arguments.tidegate)
    try:
        for at in range(2):
            cluster.start(at)
        cluster.wait_ready()
        client_id = subscribed(cluster)
        begun = time.monotonic()
        fill(cluster, arguments.messages, arguments.bytes)
        filled = time.monotonic() - begun
        before = [cluster.peak(at) for at in range(2)]
        reader = Reader(cluster.ports[0], client_id.encode(), arguments.messages, arguments.rate)
        thread = threading.Thread(target=reader.read)
        if not arguments.absent:
            thread.start()
            reader.begun.wait()
        left = arguments.messages - reader.count
        reader.counts_from = time.monotonic()
        cluster.nodes[1].send_signal(signal.SIGTERM)
        if arguments.absent:
            thread.start()
        peaks = before[1]
        while cluster.nodes[1].poll() is None:
            try:
                peaks = max(peaks, cluster.peak(1))
            except (OSError, StopIteration):
                pass
            time.sleep(0.02)
        drained = time.monotonic() - reader.counts_from
        left_then, reader.rate = arguments.messages - reader.count, None
        thread.join()
        print(json.dumps({
            "filled, s": round(filled, 1), "left at SIGTERM": left, "drained, s": round(drained, 2), "left then": left_then,
            "exit code of the drained node": cluster.nodes[1].returncode,
            "away, s": round(reader.longest, 3), "connections": reader.connections, "attempts": dict(reader.attempts),
            "lost": arguments.messages - reader.count, "twice": reader.twice, "out of order": reader.disorder,
            "peak memory before, MiB": before, "peak memory after, MiB": [cluster.peak(0), peaks],
        }))
    finally:
        cluster.end()


if __name__ == "__main__":
    main()
