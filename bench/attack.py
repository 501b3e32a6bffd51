#!/usr/bin/env python3
"""What an attack does to everybody else: thousands of clients that subscribe and never read, and one that publishes as fast as it can.

    cargo build --release
    bench/attack.py [--broker target/release/tidegate] [--slow 10000] [--seconds 20] [--ceiling 256MiB]

Starts the broker with a memory ceiling, measures the latency of a well-behaved pair (100 messages a second at QoS 0 and 1) undisturbed, then with
the attack, and prints both beside the broker's memory. Linux only, standard library only. The client's end of a slow reader is a socket with a
small receive buffer that nobody reads, so that what it is sent piles up at the broker.
"""
import argparse
import multiprocessing
import os
import pathlib
import resource
import select
import signal
import socket
import struct
import subprocess
import threading
import time

from mqtt_wire import connect, packet, subscribe, text

ROOT = pathlib.Path(__file__).resolve().parent.parent


def publish(topic, payload, qos=0, number=1):
    identifier = struct.pack(">H", number) if qos else b""
    return packet(0x30 | qos << 1, text(topic) + identifier + payload)


def dial(port, name, small=False):
    client = socket.socket()
    if small:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
    client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    client.connect(("127.0.0.1", port))
    client.sendall(connect(name))
    return client


def prefer_this_process():
    """Lets the clients that are measured have the processor when they need it: in earnest they would have one of their own."""
    try:
        os.nice(-15)
    except PermissionError:
        print("without the right to a higher priority, the latencies include waiting for the processor", flush=True)


class Pair:
    """One publisher and one subscriber that behave, and the latencies between them."""

    def __init__(self, port, name):
        self.topic = f"good/{name}"
        self.subscriber = dial(port, f"sub-{name}")
        self.subscriber.sendall(subscribe(self.topic, 1))
        self.publisher = dial(port, f"pub-{name}")
        time.sleep(0.5)
        self.rest = b""
        while select.select([self.subscriber], [], [], 0)[0]:
            self.subscriber.recv(65536)

    def measure(self, seconds, rate=100):
        """Latencies in milliseconds, from the moment at which each message was due."""
        found, begin, sent = [], time.perf_counter(), 0
        total = int(seconds * rate)
        deadline = begin + seconds + 10
        while len(found) < total and time.perf_counter() < deadline:
            due = begin + sent / rate
            now = time.perf_counter()
            if sent < total and now >= due:
                self.publisher.sendall(publish(self.topic, struct.pack(">d", due), sent % 2, sent % 60_000 + 1))
                sent += 1
                continue
            wait = max(0.0, due - now) if sent < total else 0.1
            if select.select([self.subscriber], [], [], wait)[0]:
                self.take(found)
            if select.select([self.publisher], [], [], 0)[0]:
                self.publisher.recv(65536)
        return found, total

    def take(self, found):
        self.rest += self.subscriber.recv(65536)
        while len(self.rest) >= 2 and len(self.rest) >= 2 + self.rest[1]:
            frame, self.rest = self.rest[: 2 + self.rest[1]], self.rest[2 + self.rest[1] :]
            if frame[0] >> 4 != 3:
                continue
            found.append((time.perf_counter() - struct.unpack(">d", frame[-8:])[0]) * 1000)
            if frame[0] & 6:
                at = 4 + len(self.topic)
                self.subscriber.sendall(b"\x40\x02" + frame[at : at + 2])


def memory(pid):
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    return 0.0


def firehose(port, sent):
    """Publishes without pause to the topic of the slow readers, and reads nothing. A process of its own, so that it takes no
    time from the one that measures."""
    burst = publish("flood", os.urandom(1024)) * 64
    client = dial(port, "firehose")
    while True:
        try:
            sent.value += client.send(burst) * 64 / len(burst)
        except OSError:
            try:
                client = dial(port, "firehose")
            except OSError:
                return


def row(name, latencies, expected, peak):
    latencies = sorted(latencies)
    quantile = lambda share: latencies[min(len(latencies) - 1, int(share * len(latencies)))]
    p50, p99 = quantile(0.5), quantile(0.99)
    print(f"| {name} | {len(latencies)} of {expected} | {p50:.2f} | {p99:.2f} | {max(latencies):.2f} | {peak:.0f} |", flush=True)
    return p99


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--broker", default=ROOT / "target/release/tidegate")
    parser.add_argument("--slow", type=int, default=10_000)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--ceiling", default="256MiB")
    parser.add_argument("--port", type=int, default=21_883)
    arguments = parser.parse_args()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    command = [arguments.broker, "--listen", f"127.0.0.1:{arguments.port}", "--admin", "off", "--log", "error"]
    command += ["--set", f"limits.memory_ceiling={arguments.ceiling}"]
    broker = subprocess.Popen(command, stdout=subprocess.PIPE)
    broker.stdout.readline()
    stop, peak = threading.Event(), [0.0]

    def watch():
        while not stop.wait(0.1):
            peak[0] = max(peak[0], memory(broker.pid))

    threading.Thread(target=watch, daemon=True).start()
    try:
        pair = Pair(arguments.port, "a")
        print("| | received | p50 ms | p99 ms | max ms | peak RSS MiB |\n| --- | --- | --- | --- | --- | --- |")
        calm = row("undisturbed", *pair.measure(arguments.seconds), peak[0])
        slow = [dial(arguments.port, f"slow-{number}", small=True) for number in range(arguments.slow)]
        for client in slow:
            client.sendall(subscribe("flood", 0))
        sent = multiprocessing.Value("d", 0.0)
        attacker = multiprocessing.Process(target=firehose, args=(arguments.port, sent), daemon=True)
        attacker.start()
        prefer_this_process()
        time.sleep(2)
        attacked = row(f"{arguments.slow} slow readers, a firehose", *pair.measure(arguments.seconds), peak[0])
        print(f"\np99 under attack is {attacked / calm:.1f} times that of before; the firehose sent {sent.value:,.0f} messages of 1 KiB")
        print(f"peak memory {peak[0]:.0f} MiB, ceiling {arguments.ceiling}")
    finally:
        stop.set()
        broker.send_signal(signal.SIGKILL)


if __name__ == "__main__":
    main()
