"""Programs for other processors, under QEMU: `./test cross` builds them as lean archives and names their directory.

`TIDEGATE_ARCHIVES` is a directory with archives of `./package --lean --target TARGET tar`.
"""

import os
import pathlib
import shutil
import socket
import struct
import sys
import tarfile
import tempfile
import unittest

from broker import PATIENCE, ROOT, Broker
from paho_client import Client

sys.path.insert(0, str(ROOT / "deploy" / "package"))
from tidegate_packages.release import command_of, read_elf

ARCHIVES = os.environ.get("TIDEGATE_ARCHIVES", "")
# Readers that come in a step, and steps: a small ladder of the study of a Raspberry Pi, as a test of function.
STEP, STEPS = 50, 8


class EmulatedBroker(Broker):
    """A broker for another processor, with a data directory that outlives it."""

    def __init__(self, command, data, *arguments):
        self.command = command
        super().__init__("--data", str(data), *arguments)

    def _tidegate(self, arguments):
        full = super()._tidegate(arguments)
        # A lean program has no admin listener.
        full[full.index("--admin") + 1] = "off"
        return [*self.command, *full[1:]]


def packet(kind, body):
    return bytes([kind, len(body)]) + body


def text(value):
    return struct.pack(">H", len(value)) + value.encode()


def exactly(stream, number):
    data = b""
    while len(data) < number:
        part = stream.recv(number - len(data))
        if not part:
            raise AssertionError("the broker has closed a connection")
        data += part
    return data


class Reader:
    """A subscriber of one topic without a thread: hundreds of them are here at once."""

    def __init__(self, port, name, topic):
        self.stream = socket.create_connection(("127.0.0.1", port), PATIENCE)
        self.stream.sendall(packet(0x10, text("MQTT") + b"\x04\x02\x00\x00" + text(name)))
        assert exactly(self.stream, 4) == b"\x20\x02\x00\x00"
        self.stream.sendall(packet(0x82, b"\x00\x01" + text(topic) + b"\x00"))
        assert exactly(self.stream, 5) == b"\x90\x03\x00\x01\x00"

    def payload(self):
        kind, length = exactly(self.stream, 2)
        body = exactly(self.stream, length)
        assert kind & 0xF0 == 0x30, kind
        return body[2 + struct.unpack_from(">H", body)[0]:].decode()


@unittest.skipUnless(ARCHIVES, "programs for other processors were NOT tried: ./test cross builds them")
class OtherProcessors(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="tidegate-processors-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        cls.commands = {}
        for archive in sorted(pathlib.Path(ARCHIVES).glob("tidegate-lean-*.tar.gz")):
            with tarfile.open(archive) as tar:
                tar.extractall(cls.folder, filter="data")
            program = cls.folder / archive.name.removesuffix(".tar.gz") / "tidegate"
            machine, is_static = read_elf(program)
            assert is_static, archive.name
            cls.commands[machine] = command_of(program, machine)
        assert cls.commands, f"{ARCHIVES} has no archive of a lean program"

    def start(self, command, data):
        broker = EmulatedBroker(command, data)
        self.addCleanup(broker.close)
        return broker

    def test_what_was_acknowledged_outlives_a_kill(self):
        for machine, command in self.commands.items():
            with self.subTest(machine):
                data = self.folder / f"data-{machine}"
                broker = self.start(command, data)
                away = Client(broker, "away", clean=False, expiry=3600)
                away.subscribe("tide/#", qos=2)
                away.leave()
                writer = Client(broker, "writer")
                for qos in (1, 2):
                    writer.publish(f"tide/{qos}", str(qos), qos=qos, retain=True)
                broker.kill()
                writer.leave()
                broker = self.start(command, data)
                back = Client(broker, "away", clean=False, expiry=3600)
                self.addCleanup(back.leave)
                got = sorted(back.messages.get(timeout=PATIENCE).payload.decode() for _ in range(2))
                self.assertEqual(got, ["1", "2"])
                late = Client(broker, "late")
                self.addCleanup(late.leave)
                late.subscribe("tide/#", qos=1)
                self.assertEqual(sorted(late.messages.get(timeout=PATIENCE).payload.decode() for _ in range(2)), ["1", "2"])

    def test_each_step_of_a_ladder_is_served(self):
        for machine, command in self.commands.items():
            with self.subTest(machine):
                broker = self.start(command, self.folder / f"ladder-{machine}")
                sensor = Client(broker, "sensor")
                self.addCleanup(sensor.leave)
                readers = []
                for step in range(STEPS):
                    readers += [Reader(broker.port, f"r{step}-{number}", "lab/sensor") for number in range(STEP)]
                    sensor.publish("lab/sensor", f"hello {step}", qos=1)
                    self.assertEqual({reader.payload() for reader in readers}, {f"hello {step}"})
                for reader in readers:
                    reader.stream.close()
                self.assertEqual(broker.terminate(), 0)


if __name__ == "__main__":
    unittest.main()
