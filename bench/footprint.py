#!/usr/bin/env python3
"""What Tidegate costs while it does nothing: start-up, idle wake-ups, memory per idle client, connect rate, memory given back.

    cargo build --release && bench/footprint.py [--broker target/release/tidegate] [--clients 10000] [--shards N]

Uses Python's standard library only, Linux's /proc, and loopback addresses. Prints one line per figure. `docs/performance.md`
keeps results with machine and commit.
"""
import argparse
import resource
import selectors
import signal
import socket
import subprocess
import time

from mqtt_wire import connect, free_ports, subscribe
from process_figures import status, wake_ups

IP_BIND_ADDRESS_NO_PORT = 24  # <linux/in.h>
RUSH_WINDOW = 512  # connections that may wait for their CONNACK at once
SETTLE_SECONDS = 3.0  # the broker gives memory back one second after a rush


def pss_kb(pid):
    with open(f"/proc/{pid}/smaps_rollup") as lines:
        return next(int(line.split()[1]) for line in lines if line.startswith("Pss:"))


def wake_ups_in(pid, seconds):
    before = wake_ups(pid)
    time.sleep(seconds)
    return wake_ups(pid) - before


class Crowd:
    """Idle clients, each with one subscription of its own."""

    def __init__(self, port, number):
        self.port, self.number, self.sockets = port, number, []
        self.selector = selectors.DefaultSelector()

    def dial(self, index):
        client = socket.socket()
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        # One source address has some 28,000 ports only. The port is chosen at connect, by destination, which stays fast
        # while thousands of earlier connections linger.
        client.setsockopt(socket.SOL_IP, IP_BIND_ADDRESS_NO_PORT, 1)
        client.bind((f"127.0.0.{1 + index // 20000}", 0))
        client.connect(("127.0.0.1", self.port))
        client.sendall(connect(f"footprint-{index}"))
        client.setblocking(False)
        self.sockets.append(client)
        self.selector.register(client, selectors.EVENT_READ)

    def answers(self, wanted, length):
        """Waits for `wanted` answers of `length` bytes each."""
        got, deadline = 0, time.monotonic() + 60
        while got < wanted and time.monotonic() < deadline:
            for key, _ in self.selector.select(1):
                data = key.fileobj.recv(64)
                if not data:
                    raise SystemExit("the broker closed a connection")
                got += len(data) // length
        return got

    def connect_all(self):
        start, answered = time.monotonic(), 0
        for index in range(self.number):
            self.dial(index)
            if (index + 1) % RUSH_WINDOW == 0:
                answered += self.answers(RUSH_WINDOW, 4)
        answered += self.answers(self.number - answered, 4)
        return time.monotonic() - start, answered

    def subscribe_all(self):
        for index, client in enumerate(self.sockets):
            client.setblocking(True)
            client.sendall(subscribe(f"idle/{index}"))
            client.setblocking(False)
        return self.answers(self.number, 5)

    def leave(self):
        for client in self.sockets:
            self.selector.unregister(client)
            client.close()
        self.sockets.clear()


def start(command):
    before = time.monotonic()
    broker = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    line = broker.stdout.readline()
    if "ready" not in line:
        raise SystemExit(f"the broker did not become ready: {line!r}")
    return broker, (time.monotonic() - before) * 1000


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--broker", default="target/release/tidegate")
    parser.add_argument("--clients", type=int, default=10000)
    parser.add_argument("--shards", type=int, help="as many as the broker chooses, unless given")
    parser.add_argument("--admin", default="off", help="ADDRESS:PORT of the admin listener, to see what it costs")
    options = parser.parse_args()
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
    port = free_ports(1)[0]
    command = [options.broker, "--listen", f"127.0.0.1:{port}", "--admin", options.admin]
    if options.shards:
        command += ["--shards", str(options.shards)]
    broker, ready_ms = start(command)
    pid = broker.pid
    try:
        print(f"ready after             {ready_ms:8.1f} ms")
        time.sleep(1)
        print(f"PSS after start         {pss_kb(pid) / 1024:8.2f} MiB")
        print(f"wake-ups in 5 s, idle   {wake_ups_in(pid, 5):8d}")
        anonymous = status(pid, "RssAnon")
        crowd = Crowd(port, options.clients)
        seconds, connected = crowd.connect_all()
        print(f"connects                {connected:8d} in {seconds:.2f} s, {connected / seconds:.0f}/s (bounded by this client)")
        subscribed = crowd.subscribe_all()
        time.sleep(SETTLE_SECONDS)
        each = (status(pid, "RssAnon") - anonymous) * 1024 / options.clients
        print(f"idle clients            {subscribed:8d} with a subscription each")
        print(f"user memory per client  {each:8.0f} bytes")
        print(f"RSS with them           {status(pid, 'VmRSS') / 1024:8.2f} MiB")
        print(f"wake-ups in 5 s, so     {wake_ups_in(pid, 5):8d}")
        crowd.leave()
        time.sleep(SETTLE_SECONDS)
        print(f"RSS after they left     {status(pid, 'VmRSS') / 1024:8.2f} MiB")
        broker.send_signal(signal.SIGTERM)
        print(f"exit code after SIGTERM {broker.wait(10):8d}")
    finally:
        broker.kill()


main()
