"""Programs that people connect to a broker, each started as its own documentation says: docs/integrations.md."""

import asyncio
import json
import os
import pathlib
import queue
import re
import shutil
import subprocess
import tempfile
import time
import unittest

import aiomqtt

from broker import BINARY, MOSQUITTO, PATIENCE, ROOT, Broker, BrokerTest, Lines, free_ports
from paho_client import Client

HERE = pathlib.Path(__file__).parent
NODE_RED = HERE / "node_modules" / "node-red" / "red.js"
# The names of the broker and of its password on the page.
PAGE_SERVER, PAGE_PASSWORD = "192.168.1.2:1883", "PASSWORD"


def snippet(heading):
    """The first block of code below a heading of docs/integrations.md."""
    page = (ROOT / "docs" / "integrations.md").read_text(encoding="utf-8")
    section = page.split(f"\n## {heading}\n", 1)[1].split("\n## ", 1)[0]
    return re.search(r"```\w*\n(.*?)```", section, re.DOTALL)[1]


class NodeRed(BrokerTest):
    """A flow that reads a sensor's topic, keeps what is above a bound, and publishes it elsewhere."""

    def flow(self, version):
        return [
            {"id": "tab", "type": "tab", "label": "tide"},
            {"id": "broker", "type": "mqtt-broker", "broker": "127.0.0.1", "port": str(self.broker.port),
             "clientid": f"node-red-{version}", "autoConnect": True, "protocolVersion": version, "keepalive": "60",
             "cleansession": True, "birthTopic": f"node-red/{version}", "birthPayload": "online", "birthQos": "1",
             "birthRetain": "true", "willTopic": f"node-red/{version}", "willPayload": "gone", "willQos": "1",
             "willRetain": "true"},
            {"id": "in", "z": "tab", "type": "mqtt in", "topic": "plant/+/temp", "qos": "1", "datatype": "json",
             "broker": "broker", "wires": [["above"]]},
            {"id": "above", "z": "tab", "type": "switch", "property": "payload.value", "propertyType": "msg",
             "rules": [{"t": "gt", "v": "30", "vt": "num"}], "outputs": 1, "wires": [["rename"]]},
            {"id": "rename", "z": "tab", "type": "change", "rules": [
                {"t": "set", "p": "topic", "pt": "msg", "to": "alarm", "tot": "str"}], "wires": [["out"]]},
            {"id": "out", "z": "tab", "type": "mqtt out", "topic": "", "qos": "1", "retain": "", "broker": "broker",
             "wires": []},
        ]

    def start(self, version):
        folder = pathlib.Path(tempfile.mkdtemp(prefix="tidegate-node-red-"))
        self.addCleanup(shutil.rmtree, folder, ignore_errors=True)
        (folder / "flows.json").write_text(json.dumps(self.flow(version)))
        (folder / "settings.js").write_text(
            "module.exports = { flowFile: 'flows.json', credentialSecret: false, telemetry: { enabled: false } };")
        command = ["node", NODE_RED, "--userDir", folder, "--port", free_ports(1)[0]]
        process = subprocess.Popen(list(map(str, command)), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.STDOUT, text=True)
        self.addCleanup(process.wait, PATIENCE)
        self.addCleanup(process.kill)
        Lines(process.stdout).wait(lambda line: "Connected to broker" in line)
        return process

    def test_a_flow_reads_and_publishes(self):
        for version in ("4", "5"):
            with self.subTest(version):
                process = self.start(version)
                client = Client(self.broker)
                self.addCleanup(client.leave)
                client.subscribe("alarm", qos=1)
                self.assertEqual(json.loads(self.first_alarm(client)), {"value": 31})
                watcher = Client(self.broker)
                self.addCleanup(watcher.leave)
                watcher.subscribe(f"node-red/{version}", qos=1)
                self.assertEqual(watcher.payloads(), ["online"])
                process.kill()
                self.assertEqual(watcher.payloads(), ["gone"])

    def first_alarm(self, client):
        """A flow subscribes some time after it has connected: readings are repeated until it answers one."""
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            client.publish("plant/a/temp", json.dumps({"value": 12}), qos=1)
            client.publish("plant/b/temp", json.dumps({"value": 31}), qos=1)
            try:
                return client.messages.get(timeout=1).payload.decode()
            except queue.Empty:
                continue
        raise AssertionError("no alarm came")


@unittest.skipIf(MOSQUITTO, "the users are ours")
class Zigbee2Mqtt(unittest.TestCase):
    """Zigbee2MQTT's MQTT client with the configuration of the page; it has no Zigbee adapter here."""

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="tidegate-zigbee2mqtt-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        users, config = self.folder / "users", self.folder / "tidegate.toml"
        subprocess.run([BINARY, "passwd", "--batch", "--create", users, "home", "tide-table"], check=True, capture_output=True, timeout=PATIENCE)
        config.write_text(f"[[auth]]\nkind = 'password-file'\nfile = '{users}'\n[access]\ndefault = 'allow'\n")
        self.broker = Broker("--config", str(config))
        self.addCleanup(self.broker.close)

    def test_the_snippet_connects_and_keeps_states(self):
        settings = snippet("Zigbee2MQTT").replace(PAGE_SERVER, f"127.0.0.1:{self.broker.port}").replace(PAGE_PASSWORD, "tide-table")
        (self.folder / "configuration.yaml").write_text(settings)
        process = subprocess.Popen(["node", HERE / "zigbee2mqtt" / "client.cjs"], env={**os.environ, "ZIGBEE2MQTT_DATA": str(self.folder)},
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.addCleanup(process.wait, PATIENCE)
        self.addCleanup(process.kill)
        lines = Lines(process.stdout)
        lines.wait(lambda line: line == "connected")
        login = ["-u", "home", "-P", "tide-table", "-p", str(self.broker.port)]
        subprocess.run([BINARY, "pub", *login, "-t", "zigbee2mqtt/lamp/set", "-m", "OFF", "-q", "1"], check=True, timeout=PATIENCE)
        taken = json.loads(lines.wait(lambda line: line.startswith("{"))[0])
        self.assertEqual(taken, {"topic": "zigbee2mqtt/lamp/set", "message": "OFF"})
        watching = subprocess.Popen([BINARY, "sub", *login, "-v", "-t", "zigbee2mqtt/#"], stdout=subprocess.PIPE, text=True)
        self.addCleanup(watching.wait, PATIENCE)
        self.addCleanup(watching.kill)
        seen = Lines(watching.stdout)
        seen.wait(lambda line: line == 'zigbee2mqtt/lamp {"state":"ON"}')
        seen.wait(lambda line: line == 'zigbee2mqtt/bridge/state {"state":"online"}')
        process.kill()
        seen.wait(lambda line: line == 'zigbee2mqtt/bridge/state {"state":"offline"}')


class Aiomqtt(BrokerTest):
    def test_a_loop_over_messages(self):
        async def talk():
            address = {"hostname": "127.0.0.1", "port": self.broker.port}
            async with aiomqtt.Client(**address) as reader, aiomqtt.Client(**address) as writer:
                await reader.subscribe("tide/#", qos=2)
                for qos in (0, 1, 2):
                    await writer.publish(f"tide/{qos}", str(qos), qos=qos)
                return [(await anext(reader.messages)).payload.decode() for _ in range(3)]

        self.assertEqual(asyncio.run(asyncio.wait_for(talk(), PATIENCE)), ["0", "1", "2"])


if __name__ == "__main__":
    unittest.main()
