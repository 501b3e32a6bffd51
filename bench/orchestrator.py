#!/usr/bin/env python3
"""What an orchestrator adds to a broker, and how long drains take.

    cargo build --profile dist -p tidegate
    bench/orchestrator.py [--program target/dist/tidegate] [--rounds 3]

The same broker serves the same paced load directly and through an orchestrator, in turns. Then orchestrators with many clients are
drained, and brokers under load. Uses Python's standard library only, and the clients of brokel_load.py.
"""
import argparse
import asyncio
import http.client
import json
import os
import resource
import subprocess
import tempfile
import time

from brokel_fleet import get, process_cpu
from brokel_load import Client, Load

CLIENTS = 20


class Program:
    """A broker or orchestrator with an admin listener."""

    def __init__(self, program, *arguments):
        command = [program, *arguments, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--log", "error"]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        line = self.process.stdout.readline()
        if "ready" not in line:
            raise SystemExit(f"{command} did not become ready: {line!r}")
        words = line.split()
        self.port = next(int(word.rsplit(":", 1)[1]) for word in words if word.startswith("mqtt://"))
        self.admin = next(word.split("=", 1)[1] for word in words if word.startswith("admin="))

    def post(self, path, body):
        host, port = self.admin.removeprefix("http://").rsplit(":", 1)
        connection = http.client.HTTPConnection(host, int(port), timeout=10)
        headers = {"tidegate-command": "fleet", "content-type": "application/json"}
        connection.request("POST", path, json.dumps(body), headers)
        answer = connection.getresponse()
        text = answer.read()
        connection.close()
        if answer.status >= 300:
            raise SystemExit(f"POST {path}: {answer.status} {text!r}")

    def kill(self):
        self.process.kill()
        self.process.wait()


def orchestrator(program, directory, *brokers):
    arguments = [part for number, broker in enumerate(brokers) for part in ("--broker", f"b{number}=mqtt://127.0.0.1:{broker.port}")]
    made = Program(program, "orchestrator", "--policy", "round-robin", "--data", directory, *arguments)
    deadline = time.monotonic() + 20
    while any(broker["state"] != "serving" for broker in get(made.admin, "/api/v1/fleet")["brokers"]):
        if time.monotonic() > deadline:
            raise SystemExit("the brokers do not serve")
        time.sleep(0.02)
    return made


def load_of(port, rate, seconds, qos, clients=CLIENTS, window=1000):
    # Sessions stay; topics of its own keep a run from what earlier ones have subscribed to.
    many, tag = int(rate * seconds), time.monotonic_ns()
    records = {(f"{tag}/{n % clients}".encode(), f"{n:064d}".encode()): n for n in range(many)}
    options = {"clients": clients, "qos": qos, "window": window, "rate": rate, "settle": 5.0, "linger": 0.2}
    options.update(limit=seconds + 30, pump=0.001, fall=None, prefix=f"{tag}-")
    return Load(records, lambda: [("127.0.0.1", port)], options)


async def paced(port, rate, seconds, qos):
    load = load_of(port, rate, seconds, qos)
    await load.connect()
    await load.run()
    load.close()
    await asyncio.sleep(0.3)
    return load.result()


def overhead(program, options):
    """Latency and CPU, directly and through an orchestrator."""
    with tempfile.TemporaryDirectory() as directory:
        broker = Program(program, "run", "--shards", "1")
        front = orchestrator(program, directory, broker)
        try:
            for qos in (0, 1):
                rounds = {"direct": [], "through": []}
                for _ in range(options.rounds):
                    for way, port in (("direct", broker.port), ("through", front.port)):
                        before = process_cpu(broker.process.pid), process_cpu(front.process.pid)
                        told = asyncio.run(paced(port, 1000.0, options.seconds, qos))
                        after = process_cpu(broker.process.pid), process_cpu(front.process.pid)
                        told["cpu_us"] = [1e6 * (b - a) / told["delivered"] for a, b in zip(before, after)]
                        rounds[way].append(told)
                show(qos, rounds)
        finally:
            front.kill()
            broker.kill()


def median(values):
    values = sorted(values)
    return values[len(values) // 2]


def show(qos, rounds):
    figures = {}
    for way, told in rounds.items():
        p50, p99 = (median([one[key] for one in told]) for key in ("latency_p50_ms", "latency_p99_ms"))
        broker, front = (median([one["cpu_us"][n] for one in told]) for n in (0, 1))
        figures[way] = p50
        lost = sum(one["lost"] for one in told)
        print(f"QoS {qos} {way:8}: p50 {p50:.3f} ms, p99 {p99:.3f} ms, CPU us/message: broker {broker:.1f}, orchestrator {front:.1f}; lost {lost}")
        print(f"         rounds: {[round(one['latency_p50_ms'], 3) for one in told]}", flush=True)
    print(f"QoS {qos} added   : p50 {figures['through'] - figures['direct']:.3f} ms", flush=True)


async def drain_clients(front, many, per_second):
    """Seconds until an orchestrator has sent its clients away."""
    clients = [Client(f"idle-{n}", lambda: [("127.0.0.1", front.port)]) for n in range(many)]
    for first in range(0, many, 200):
        await asyncio.gather(*(client.connect() for client in clients[first:first + 200]))
    await asyncio.wait_for(asyncio.gather(*(client.online.wait() for client in clients)), 60)
    for client in clients:
        client.wanted = False
    began = time.monotonic()
    await asyncio.to_thread(front.post, "/api/v1/drain", {"server_reference": None, "per_second": per_second, "evict_after_s": 0})
    while True:
        told = await asyncio.to_thread(get, front.admin, "/api/v1/drain")
        if not told["clients"] and not told["owed"]:
            return time.monotonic() - began
        await asyncio.sleep(0.01)


async def drain_broker(front, clients):
    """Seconds until one of two brokers owes nothing, under 1,000 messages/s."""
    load = load_of(front.port, 1000.0, 4, 1, clients, 100)
    await load.connect()
    running = asyncio.create_task(load.run())
    await asyncio.sleep(2)
    began = time.monotonic()
    await asyncio.to_thread(front.post, "/api/v1/fleet/brokers/b1/drain", {})
    while True:
        told = await asyncio.to_thread(get, front.admin, "/api/v1/fleet")
        if next(broker for broker in told["brokers"] if broker["name"] == "b1")["state"] == "drained":
            break
        await asyncio.sleep(0.005)
    took = time.monotonic() - began
    await running
    load.close()
    return took, load.result()


def drains(program):
    for many in (100, 1000, 5000):
        for per_second in (500, 100000):
            with tempfile.TemporaryDirectory() as directory:
                broker = Program(program, "run", "--shards", "1")
                front = orchestrator(program, directory, broker)
                try:
                    took = asyncio.run(drain_clients(front, many, per_second))
                    print(f"drain of an orchestrator with {many} clients, at most {per_second}/s: {took:.2f} s", flush=True)
                finally:
                    front.kill()
                    broker.kill()
    for clients in (20, 200, 1000):
        with tempfile.TemporaryDirectory() as directory:
            brokers = [Program(program, "run", "--shards", "1") for _ in range(2)]
            front = orchestrator(program, directory, *brokers)
            try:
                took, told = asyncio.run(drain_broker(front, clients))
                came = f"lost {told['lost']}, twice {told['duplicates']}"
                print(f"drain of a broker under 1,000/s from {clients} publishers: {1000 * took:.0f} ms; {came}", flush=True)
            finally:
                for one in (front, *brokers):
                    one.kill()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default="target/dist/tidegate")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=6.0)
    parser.add_argument("--only", choices=["overhead", "drains"])
    options = parser.parse_args()
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
    program = os.path.abspath(options.program)
    if options.only != "drains":
        overhead(program, options)
    if options.only != "overhead":
        drains(program)


if __name__ == "__main__":
    main()
