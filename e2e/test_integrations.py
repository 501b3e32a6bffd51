"""Programs that people connect to a broker, each started as its own documentation says: docs/integrations.md."""

import asyncio
import json
import pathlib
import queue
import shutil
import subprocess
import tempfile
import time
import unittest

import aiomqtt

from broker import PATIENCE, BrokerTest, Lines, free_ports
from paho_client import Client

NODE_RED = pathlib.Path(__file__).parent / "node_modules" / "node-red" / "red.js"


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
