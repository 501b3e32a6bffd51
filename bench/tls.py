#!/usr/bin/env python3
"""What TLS costs beside plain TCP: memory per idle client, handshakes, processor time per message.

    cargo build --release && bench/tls.py [--broker target/release/tidegate] [--clients 2000] [--handshakes 500] [--messages 1000000]

Makes its certificate with `tidegate cert dev` (ECDSA P-256). Uses Python's standard library only, Linux's /proc, and
loopback. The broker has one shard; its processor time is counted, not the clients'. `docs/tls.md` keeps results.
"""
import argparse
import resource
import socket
import ssl
import subprocess
import tempfile
import threading
import time

import mqtt_wire
from process_figures import anonymous_kb, cpu_seconds

SETTLE_SECONDS = 3.0  # the broker gives memory back one second after a rush
PAYLOAD = 64  # bytes per message
BATCHES = (100, 1)  # messages per write of the publisher: several in a record of TLS, as under load, or one


def dial(port, context=None, session=None):
    client = socket.create_connection(("127.0.0.1", port))
    client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return context.wrap_socket(client, server_hostname="localhost", session=session) if context else client


def receive(client, length):
    data = b""
    while len(data) < length:
        part = client.recv(length - len(data))
        if not part:
            raise SystemExit("the broker closed a connection")
        data += part
    return data


def connect(port, client_id, context=None, session=None):
    client = dial(port, context, session)
    client.sendall(mqtt_wire.connect(client_id))
    receive(client, 4)
    return client


def idle(pid, port, number, context):
    """Bytes of user memory per idle client with a subscription."""
    before = anonymous_kb(pid)
    clients = []
    for index in range(number):
        client = connect(port, f"idle-{index}", context)
        client.sendall(mqtt_wire.subscribe(f"idle/{index}"))
        receive(client, 5)
        clients.append(client)
    time.sleep(SETTLE_SECONDS)
    each = (anonymous_kb(pid) - before) * 1024 / number
    for client in clients:
        client.close()
    time.sleep(SETTLE_SECONDS)
    return each


def handshakes(pid, port, number, context, resume):
    """Microseconds of the broker per connection, CONNECT and DISCONNECT included, and how many were resumed."""
    session, resumed = None, 0
    before = cpu_seconds(pid)
    for index in range(number):
        client = connect(port, f"shake-{index % 50}", context, session)
        if context and resume:
            session = client.session
            resumed += client.session_reused
        client.sendall(b"\xe0\0")
        client.close()
    return (cpu_seconds(pid) - before) * 1e6 / number, resumed


def messages(pid, port, number, size, context):
    """Microseconds of the broker per message from one publisher, `size` to a write, to one subscriber."""
    subscriber, publisher = connect(port, "reader", context), connect(port, "writer", context)
    subscriber.sendall(mqtt_wire.subscribe("t"))
    receive(subscriber, 5)
    packet = mqtt_wire.packet(0x30, mqtt_wire.text("t") + bytes(PAYLOAD))
    total, got = len(packet) * number, [0]

    def read():
        while got[0] < total:
            data = subscriber.recv(1 << 16)
            if not data:
                return
            got[0] += len(data)

    reader = threading.Thread(target=read)
    before = cpu_seconds(pid)
    reader.start()
    batch = packet * size
    for index in range(number // size):
        publisher.sendall(batch)
        # A bounded lead, so that the reader's queue never overflows.
        while index * len(batch) - got[0] > 128 * 1024:
            time.sleep(0.0002)
    reader.join(60)
    each = (cpu_seconds(pid) - before) * 1e6 / number
    if got[0] != total:
        raise SystemExit(f"{total - got[0]} bytes did not arrive")
    for client in (subscriber, publisher):
        client.close()
    return each


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--broker", default="target/release/tidegate")
    parser.add_argument("--clients", type=int, default=2000)
    parser.add_argument("--handshakes", type=int, default=500)
    parser.add_argument("--messages", type=int, default=1000000)
    options = parser.parse_args()
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
    with tempfile.TemporaryDirectory() as directory:
        subprocess.run([options.broker, "cert", "dev", "--out", directory], check=True, stdout=subprocess.DEVNULL)
        command = [options.broker, "--shards", "1", "--admin", "off", "--log", "error"]
        command += ["--listen", "127.0.0.1:0", "--listen", "mqtts://127.0.0.1:0"]
        for key, value in (("certificate", "server.pem"), ("key", "server.key")):
            command += ["--set", f"listener.1.{key}={directory}/{value}"]
        broker = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        try:
            ports = [int(part.rsplit(":", 1)[1]) for part in broker.stdout.readline().split() if "://127." in part]
            measure(broker.pid, ports, options, f"{directory}/ca.pem")
        finally:
            broker.kill()


def measure(pid, ports, options, authority):
    def context(version):
        made = ssl.create_default_context(cafile=authority)
        made.minimum_version = made.maximum_version = version
        return made

    plain, tls = ports
    kinds = [("TCP", plain, None)]
    kinds += [("TLS 1.2", tls, context(ssl.TLSVersion.TLSv1_2)), ("TLS 1.3", tls, context(ssl.TLSVersion.TLSv1_3))]
    for name, port, made in kinds:
        print(f"{name}: user memory per idle client  {idle(pid, port, options.clients, made):8.0f} bytes", flush=True)
    for name, port, made in kinds:
        each, _ = handshakes(pid, port, options.handshakes, made, False)
        print(f"{name}: broker per connection        {each:8.0f} us, {1e6 / each:.0f}/s per core", flush=True)
    for name, port, made in kinds[1:]:
        each, resumed = handshakes(pid, port, options.handshakes, made, True)
        print(f"{name}: broker per resumed one       {each:8.0f} us, {1e6 / each:.0f}/s per core ({resumed} resumed)", flush=True)
    for size in BATCHES:
        for name, port, made in kinds:
            each = messages(pid, port, options.messages // (1 if size > 1 else 10), size, made)
            print(f"{name}: broker per message, {size:3} a write {each:8.2f} us", flush=True)


main()
