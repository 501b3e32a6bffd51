#!/usr/bin/env python3
"""What MQTT over QUIC costs: memory per idle client, handshakes, and a storm of new clients.

    cargo build --release -p tidegate -p tidegate-client --bins --example quic_load
    bench/quic.py [--broker target/release/tidegate] [--load target/release/examples/quic_load] [--clients 10000]

The load is one process of its own: each client is a QUIC connection with its own handshake, CONNECT and SUBSCRIBE. Uses Python's
standard library only, Linux's /proc, and loopback. The broker has one shard; its processor time is counted, not the load's.
`docs/performance.md` keeps results.
"""
import argparse
import json
import os
import resource
import statistics
import subprocess
import tempfile
import time

from process_figures import anonymous_kb, cpu_seconds, wake_ups

SETTLE_SECONDS = 3.0  # the broker gives memory back one second after a rush
IDLE_SECONDS = 10.0
ROUNDS = 3


class Broker:
    def __init__(self, arguments):
        self.home = tempfile.TemporaryDirectory()
        listen = ["--listen", "127.0.0.1:0", "--quic", "127.0.0.1:0", "--admin", "off", "--shards", "1"]
        # What is measured is QUIC and not the limit by address, which holds for one machine with all these clients.
        limits = ["--set", "admission.max_connections_per_address=0"] if not arguments.prove else [
            "--set", "admission.max_connections_per_address=1000000"]
        environment = dict(os.environ, XDG_DATA_HOME=self.home.name)
        self.process = subprocess.Popen([arguments.broker, *listen, *limits, "--log", "error"], env=environment,
                                        stdout=subprocess.PIPE, text=True)
        words = self.process.stdout.readline().split()
        self.address = next(word[len("quic://"):] for word in words if word.startswith("quic://"))
        self.authority = os.path.join(self.home.name, "tidegate/development/ca.pem")
        self.pid = self.process.pid

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()
        self.home.cleanup()


class Load:
    """Clients that stay until they are told to leave."""

    def __init__(self, arguments, broker, count, per_second=0, window=0):
        command = [arguments.load, broker.address, broker.authority, str(count), str(per_second), str(window)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def up(self):
        return json.loads(self.process.stdout.readline())

    def leave(self):
        self.process.stdin.close()
        end = json.loads(self.process.stdout.readline())
        self.process.wait()
        return end


def idle(arguments):
    """User memory per idle client with a subscription, in bytes; wake-ups; and what is left when all have gone."""
    with Broker(arguments) as broker:
        time.sleep(SETTLE_SECONDS)
        before = anonymous_kb(broker.pid)
        load = Load(arguments, broker, arguments.clients, window=200)
        load.up()
        time.sleep(SETTLE_SECONDS)
        each = (anonymous_kb(broker.pid) - before) * 1024 / arguments.clients
        slept = wake_ups(broker.pid, ["voluntary"])
        time.sleep(IDLE_SECONDS)
        slept = wake_ups(broker.pid, ["voluntary"]) - slept
        lost = load.leave()["lost"]
        time.sleep(SETTLE_SECONDS)
        after = anonymous_kb(broker.pid)
    print(f"idle: {each:.0f} bytes of user memory per client ({arguments.clients} clients, {lost} lost), "
          f"{slept} wake-ups in {IDLE_SECONDS:.0f} s; {before} KiB before, {after} KiB after they left")


def handshakes(arguments):
    """Processor time per handshake with CONNECT and SUBSCRIBE, as many at once as a window allows."""
    each = []
    for _ in range(ROUNDS):
        with Broker(arguments) as broker:
            before = cpu_seconds(broker.pid)
            load = Load(arguments, broker, arguments.handshakes, window=64)
            up = load.up()
            each.append((cpu_seconds(broker.pid) - before) * 1e6 / up["up"])
            load.leave()
    middle = statistics.median(each)
    print(f"handshake: {middle:.0f} us of processor time each ({1e6 / middle:.0f} per second and core); "
          f"rounds: {', '.join(f'{one:.0f}' for one in each)} us")


def storm(arguments):
    """New clients at a fixed rate while others are there; nobody may be dropped or refused."""
    with Broker(arguments) as broker:
        residents = Load(arguments, broker, arguments.clients, window=200)
        residents.up()
        before = cpu_seconds(broker.pid)
        began = time.monotonic()
        load = Load(arguments, broker, arguments.storm, per_second=arguments.rate)
        up = load.up()
        cores = (cpu_seconds(broker.pid) - before) / (time.monotonic() - began)
        time.sleep(SETTLE_SECONDS)
        lost, former = load.leave(), residents.leave()
    print(f"storm: {arguments.storm} clients at {arguments.rate}/s beside {arguments.clients} others: {up['up']} came in, "
          f"{lost['lost']} of them and {former['lost']} of the others were lost; took {up['seconds']} s; "
          f"each p50 {up['p50_ms']} ms, p99 {up['p99_ms']} ms, max {up['max_ms']} ms; {cores:.2f} cores")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--broker", default="target/release/tidegate")
    parser.add_argument("--load", default="target/release/examples/quic_load")
    parser.add_argument("--clients", type=int, default=10000)
    parser.add_argument("--handshakes", type=int, default=5000)
    parser.add_argument("--storm", type=int, default=10000)
    parser.add_argument("--rate", type=int, default=1000)
    parser.add_argument("--prove", action="store_true", help="have each client prove its address first, as by default")
    parser.add_argument("--only", choices=["idle", "handshakes", "storm"])
    arguments = parser.parse_args()
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    for name, measure in [("idle", idle), ("handshakes", handshakes), ("storm", storm)]:
        if arguments.only in (None, name):
            measure(arguments)


if __name__ == "__main__":
    main()
