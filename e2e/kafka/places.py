#!/usr/bin/env python3
"""Nodes lose their places on three brokers of Kafka of which one dies, are started again, and nobody has missed anything: by hand.

    e2e/kafka/places.py DIR PORT TIDEGATE [LEASE [BROKER]]

Starts three brokers of Kafka (three.sh, at PORT) and three nodes (at PORT+20 to PORT+22), which are started again when they end. Three
publishers of QoS 1, one at each node, note what was acknowledged. There are nine lasting sessions that are away, and a subscriber that
stays at each node. BROKER (3) is killed, and node b stands still (SIGSTOP) as long as that is away: others take its place, and it has to end
with exit code 1 when it goes on. With a LEASE of 10s, unless another is given, all nodes lose their leases as well; those that come back in
time keep their places. It says when each node ended, and fails when b did not, or when a message that was acknowledged is missing at
anybody. Everything is kept in DIR.
"""

import signal
import subprocess
import sys
import threading
import time
import urllib.request
from pathlib import Path

HERE = Path(__file__).parent
NAMES = "abc"
# The node that stands still.
SUSPENDED = 1
# How long is published before the broker dies, while it is away, and afterwards, seconds.
BEFORE, AWAY, AFTER = 10, 40, 10
# How long anything may take, seconds.
PATIENCE = 180
# How long a session takes what it is owed, seconds: many times what it needs.
FETCHING = 8


class Node:
    """A node under a supervisor."""

    def __init__(self, cluster, number):
        self.name = NAMES[number]
        self.port = cluster.port + 20 + number
        self.admin = cluster.port + 30 + number
        self.ends = []
        self.log = cluster.directory / f"{self.name}.log"
        self.command = [
            cluster.tidegate, "-l", f"127.0.0.1:{self.port}", "--admin", f"127.0.0.1:{self.admin}", "--node", self.name,
            "--bus", cluster.bus, "--data", str(cluster.directory / self.name), "--shards", "1",
            "--set", "cluster.bus_replicas=3", "--set", f"cluster.lease={cluster.lease}",
        ]  # fmt: skip
        self.process = None
        self.is_over = False
        threading.Thread(target=self.supervise, daemon=True).start()

    def supervise(self):
        while not self.is_over:
            with self.log.open("a") as log:
                self.process = subprocess.Popen(self.command, stdout=log, stderr=log)
                code = self.process.wait()
                self.ends.append((time.time(), code))
            time.sleep(1)

    def is_ready(self):
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.admin}/readyz", timeout=5) as answer:
                return answer.status == 200
        except OSError:
            return False

    def until_ended(self):
        deadline = time.time() + PATIENCE
        while not self.ends:
            assert time.time() < deadline, f"node {self.name} does not end; see its log"
            time.sleep(0.1)

    def stop(self):
        self.is_over = True
        self.process.kill()


class Cluster:
    def __init__(self, directory, port, tidegate, lease="10s", broker="3"):
        self.directory, self.port, self.tidegate, self.lease, self.broker = Path(directory), int(port), tidegate, lease, broker
        self.bus = self.kafka("start", str(self.port)).stdout.strip()
        self.nodes = [Node(self, number) for number in range(len(NAMES))]
        self.is_over = threading.Event()
        self.acknowledged = []
        # The clients that stay, by their nodes.
        self.staying = {}

    def kafka(self, *words):
        command = [HERE / "three.sh", words[0], str(self.directory / "kafka"), *words[1:]]
        return subprocess.run(command, check=True, text=True, stdout=subprocess.PIPE)

    def client(self, node, *words):
        command = [self.tidegate, words[0], "-h", "127.0.0.1", "-p", str(node.port), *words[1:]]
        return subprocess.run(command, text=True, capture_output=True, timeout=PATIENCE)

    def until_ready(self):
        deadline = time.time() + PATIENCE
        while not all(node.is_ready() for node in self.nodes):
            assert time.time() < deadline, "the nodes are not ready; see their logs"
            time.sleep(0.2)

    def publish(self, node):
        number = 0
        while not self.is_over.is_set():
            message = f"{node.name}{number}"
            try:
                if self.client(node, "pub", "-q", "1", "-t", "in/x", "-m", message).returncode == 0:
                    self.acknowledged.append(message)
            except subprocess.TimeoutExpired:
                pass
            number += 1

    def stay(self, node):
        """A subscriber that is there, and comes back."""
        path = self.directory / f"there-{node.name}"
        words = ["-i", f"there-{node.name}", "-c", "-q", "1", "-t", "in/#", "-W", "600"]
        while not self.is_over.is_set():
            with path.open("a") as out:
                command = [self.tidegate, "sub", "-h", "127.0.0.1", "-p", str(node.port), *words]
                client = self.staying[node.name] = subprocess.Popen(command, stdout=out, stderr=subprocess.DEVNULL)
                client.wait()
            time.sleep(0.5)

    def fetch(self, name, node):
        """What a lasting session is owed."""
        got = self.client(node, "sub", "-i", name, "-c", "-q", "1", "-t", "in/#", "-W", str(FETCHING)).stdout
        return got.split()


def missing(acknowledged, got):
    return sorted(set(acknowledged) - set(got))


def main():
    cluster = Cluster(*sys.argv[1:])
    failed = False
    try:
        cluster.until_ready()
        away = [f"away-{number}" for number in range(9)]
        for number, name in enumerate(away + [f"there-{node.name}" for node in cluster.nodes]):
            made = cluster.client(cluster.nodes[number % 3], "sub", "-i", name, "-c", "-q", "1", "-t", "in/#", "-E")
            assert made.returncode == 0, made.stderr
        threads = [threading.Thread(target=work, args=(node,), daemon=True) for node in cluster.nodes for work in (cluster.stay, cluster.publish)]
        for thread in threads:
            thread.start()
        time.sleep(BEFORE)
        print("kill -9 of broker", cluster.broker, flush=True)
        died = time.time()
        cluster.kafka("kill", cluster.broker)
        suspended = cluster.nodes[SUSPENDED]
        suspended.process.send_signal(signal.SIGSTOP)
        time.sleep(AWAY)
        cluster.kafka("again", cluster.broker)
        suspended.process.send_signal(signal.SIGCONT)
        suspended.until_ended()
        cluster.until_ready()
        time.sleep(AFTER)
        cluster.is_over.set()
        for thread in threads[1::2]:
            thread.join(PATIENCE)
        for node in cluster.nodes:
            print("node", node.name, "ended:", [f"{at - died:.1f} s after with {code}" for at, code in node.ends])
        failed |= [code for at, code in suspended.ends if at > died] != [1]
        print(len(cluster.acknowledged), "messages were acknowledged")
        for number, name in enumerate(away):
            got = cluster.fetch(name, cluster.nodes[(number + 1) % 3])
            lost = missing(cluster.acknowledged, got)
            failed |= bool(lost)
            print(name, "got", len(got), "misses", lost)
        for node in cluster.nodes:
            got = (cluster.directory / f"there-{node.name}").read_text().split()
            lost = missing(cluster.acknowledged, got)
            failed |= bool(lost)
            print("there", node.name, "got", len(got), "misses", lost)
    finally:
        cluster.is_over.set()
        for node in cluster.nodes:
            node.stop()
        for client in cluster.staying.values():
            client.kill()
        cluster.kafka("stop")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    main()
