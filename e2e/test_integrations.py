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
from paho_client import MQTT_3_1_1, Client

HERE = pathlib.Path(__file__).parent
NODE_RED = HERE / "node_modules" / "node-red" / "red.js"
# ./test builds the one from Go's modules, and installs the other where there is Python 3.11.
TELEGRAF = ROOT / "target" / "servers" / "bin" / "telegraf"
HOME_ASSISTANT = ROOT / ".venv-home-assistant" / "bin" / "python"
# The names of the broker and of its password on the page, and the password in the tests.
PAGE_SERVER, PAGE_PASSWORD = "192.168.1.2:1883", "PASSWORD"
PASSWORD = "tide-table"


def snippet(heading):
    """The first block of code below a heading of docs/integrations.md."""
    page = (ROOT / "docs" / "integrations.md").read_text(encoding="utf-8")
    section = page.split(f"\n## {heading}\n", 1)[1].split("\n## ", 1)[0]
    return re.search(r"```\w*\n(.*?)```", section, re.DOTALL)[1]


def page_configuration():
    """The broker's file that all examples of the page use."""
    page = (ROOT / "docs" / "integrations.md").read_text(encoding="utf-8")
    return re.search(r"```toml\n# tidegate.toml\n(.*?)```", page, re.DOTALL)[1]


@unittest.skipIf(MOSQUITTO, "the users are ours")
class PageTest(unittest.TestCase):
    """A test case whose broker has the configuration, the user and the data directory of the page."""

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="tidegate-integration-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        subprocess.run([BINARY, "passwd", "--batch", "--create", self.folder / "users", "home", PASSWORD], check=True,
                       capture_output=True, timeout=PATIENCE)
        (self.folder / "tidegate.toml").write_text(page_configuration().replace('"users"', f'"{self.folder}/users"'))
        self.broker = self.start_broker()

    def start_broker(self, *arguments):
        broker = Broker("--config", str(self.folder / "tidegate.toml"), "--data", str(self.folder / "data"), *arguments)
        self.addCleanup(broker.close)
        return broker

    def start_program(self, *command, **options):
        """A program, and the lines that it prints."""
        process = subprocess.Popen(list(map(str, command)), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   stderr=subprocess.STDOUT, text=True, bufsize=1, **options)
        self.addCleanup(process.stdin.close)
        self.addCleanup(process.wait, PATIENCE)
        self.addCleanup(process.kill)
        return process, Lines(process.stdout)

    def client(self, client_id="", **options):
        client = Client(self.broker, client_id, user="home", password=PASSWORD, **options)
        self.addCleanup(client.leave)
        return client


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


class Zigbee2Mqtt(PageTest):
    """Zigbee2MQTT's MQTT client with the configuration of the page; it has no Zigbee adapter here."""

    def test_the_snippet_connects_and_keeps_states(self):
        settings = snippet("Zigbee2MQTT").replace(PAGE_SERVER, f"127.0.0.1:{self.broker.port}").replace(PAGE_PASSWORD, PASSWORD)
        (self.folder / "configuration.yaml").write_text(settings)
        process, lines = self.start_program("node", HERE / "zigbee2mqtt" / "client.cjs",
                                            env={**os.environ, "ZIGBEE2MQTT_DATA": str(self.folder)})
        lines.wait(lambda line: line == "connected")
        client = self.client()
        client.publish("zigbee2mqtt/lamp/set", "OFF", qos=1)
        taken = json.loads(lines.wait(lambda line: line.startswith("{"))[0])
        self.assertEqual(taken, {"topic": "zigbee2mqtt/lamp/set", "message": "OFF"})
        client.subscribe("zigbee2mqtt/+", qos=1)
        self.assertEqual(client.payloads(), ['{"state":"ON"}'])
        client.subscribe("zigbee2mqtt/bridge/state", qos=1)
        self.assertEqual(client.payloads(), ['{"state":"online"}'])
        process.kill()
        self.assertEqual(client.payloads(), ['{"state":"offline"}'])


@unittest.skipUnless(TELEGRAF.exists(), "Telegraf was NOT tried: ./test e2e builds it")
class Telegraf(PageTest):
    """Telegraf's collector with the configuration of the page, which writes what it has read to a file."""

    def start(self):
        settings = snippet("Telegraf").replace(PAGE_SERVER, f"127.0.0.1:{self.broker.port}").replace(PAGE_PASSWORD, PASSWORD)
        settings = f"[agent]\nomit_hostname = true\nflush_interval = '100ms'\nmetric_batch_size = 1\n{settings}\n"
        (self.folder / "telegraf.conf").write_text(settings + "[[outputs.file]]\nfiles = ['stdout']\n")
        return self.start_program(TELEGRAF, "--config", self.folder / "telegraf.conf")

    def test_no_reading_is_missed_while_it_is_away(self):
        process, lines = self.start()
        lines.wait(lambda line: "Connected" in line)
        client = self.client()
        client.publish("plant/a/temp", '{"value": 21.5}', qos=1)
        read = lines.wait(lambda line: line.startswith("mqtt_consumer,"))[0]
        self.assertTrue(read.startswith("mqtt_consumer,topic=plant/a/temp value=21.5 "), read)
        process.terminate()
        self.assertEqual(process.wait(PATIENCE), 0)
        client.publish("plant/b/temp", '{"value": 22.5}', qos=1)
        _, lines = self.start()
        read = lines.wait(lambda line: line.startswith("mqtt_consumer,"))[0]
        self.assertTrue(read.startswith("mqtt_consumer,topic=plant/b/temp value=22.5 "), read)


# What devices announce about themselves: a light of Zigbee2MQTT, a sensor of ESPHome with its short names, a plug of Tasmota.
LIGHT = {"name": "Lamp", "unique_id": "0x00158d_light_zigbee2mqtt", "schema": "json", "state_topic": "zigbee2mqtt/lamp",
         "command_topic": "zigbee2mqtt/lamp/set", "availability": [{"topic": "zigbee2mqtt/bridge/state", "value_template": "{{ value_json.state }}"}]}
ESPHOME = {"name": "Greenhouse", "uniq_id": "ESPsensorgreenhouse", "stat_t": "greenhouse/sensor/temperature/state",
           "unit_of_meas": "°C", "dev_cla": "temperature", "avty_t": "greenhouse/status", "exp_aft": 0,
           "dev": {"ids": "240ac4a1b2c3", "name": "greenhouse", "sw": "esphome", "mf": "Espressif", "mdl": "esp32dev"}}
TASMOTA = {"name": "Plug", "uniq_id": "A1B2C3_RL_1", "~": "plug/", "stat_t": "~stat/POWER", "cmd_t": "~cmnd/POWER", "avty_t": "~tele/LWT",
           "pl_avail": "Online", "pl_not_avail": "Offline", "pl_on": "ON", "pl_off": "OFF"}


@unittest.skipUnless(HOME_ASSISTANT.exists(), "Home Assistant was NOT tried: it needs Python 3.11, and ./test e2e installs it")
class HomeAssistant(PageTest):
    """The core of Home Assistant with its MQTT integration, and devices that announce themselves to it."""

    def start(self):
        home = pathlib.Path(tempfile.mkdtemp(dir=self.folder))
        (home / "configuration.yaml").touch()
        process, lines = self.start_program(HOME_ASSISTANT, HERE / "homeassistant" / "home.py", home, self.broker.port, "home", PASSWORD,
                                            free_ports(1)[0])
        lines.wait(lambda line: line == "started")
        return process, lines

    def announce(self):
        """A sensor of ESPHome that is online, and the other two by what they have left at the broker."""
        client = self.client()
        for topic, device in {"light/0x00158d/light": LIGHT, "sensor/greenhouse/temperature": ESPHOME, "switch/A1B2C3_RL_1": TASMOTA}.items():
            client.publish(f"homeassistant/{topic}/config", json.dumps(device), qos=1, retain=True)
        client.publish("zigbee2mqtt/bridge/state", '{"state":"online"}', qos=1, retain=True)
        client.publish("zigbee2mqtt/lamp", '{"state":"ON"}', qos=1, retain=True)
        client.publish("plug/tele/LWT", "Online", qos=1, retain=True)
        client.publish("plug/stat/POWER", "OFF", qos=1, retain=True)
        sensor = self.client("greenhouse", version=MQTT_3_1_1, will={"topic": "greenhouse/status", "payload": "offline", "retain": True})
        sensor.publish("greenhouse/status", "online", retain=True)
        sensor.publish("greenhouse/sensor/temperature/state", "24.5", retain=True)
        return client, sensor

    def test_devices_appear_and_are_switched(self):
        client, sensor = self.announce()
        client.subscribe("homeassistant/status", qos=1)
        process, lines = self.start()
        self.assertEqual(client.payloads(), ["online"])
        for state in ("light.lamp on", "sensor.greenhouse_greenhouse 24.5", "switch.plug off"):
            lines.wait(lambda line, state=state: line == state)
        client.subscribe("plug/cmnd/POWER", qos=1)
        process.stdin.write("switch turn_on switch.plug\n")
        self.assertEqual(client.payloads(), ["ON"])
        client.publish("plug/stat/POWER", "ON", qos=1, retain=True)
        lines.wait(lambda line: line == "switch.plug on")
        sensor.vanish()
        lines.wait(lambda line: line == "sensor.greenhouse_greenhouse unavailable")
        process.kill()
        self.assertEqual(client.payloads(), ["offline"])

    def test_devices_outlive_a_restart_of_the_broker(self):
        self.announce()
        self.assertEqual(self.broker.terminate(), 0)
        self.broker = self.start_broker()
        _, lines = self.start()
        for state in ("light.lamp on", "sensor.greenhouse_greenhouse unavailable", "switch.plug off"):
            lines.wait(lambda line, state=state: line == state)


class Frigate(PageTest):
    """What Frigate publishes: a retained will, events, and snapshots as retained images."""

    def test_a_large_snapshot_needs_a_larger_packet(self):
        image = b"\xff\xd8" + os.urandom(3 << 20) + b"\xff\xd9"
        will = {"topic": "frigate/available", "payload": "offline", "qos": 1, "retain": True}
        camera = self.client("frigate", version=MQTT_3_1_1, will=will)
        camera.paho.publish("frigate/yard/person/snapshot", image, retain=True)
        camera.ended.get(timeout=PATIENCE)
        self.assertEqual(self.broker.terminate(), 0)
        self.broker = self.start_broker("--set", "listener.0.max_packet_size=8MiB")
        camera = self.client("frigate", version=MQTT_3_1_1, will=will)
        camera.publish("frigate/available", "online", retain=True, qos=1)
        camera.publish("frigate/yard/person/snapshot", image, retain=True, qos=1)
        watcher = self.client()
        watcher.subscribe("frigate/yard/person/snapshot", qos=1)
        self.assertEqual(watcher.receive()[0].payload, image)
        watcher.subscribe("frigate/available", qos=1)
        self.assertEqual(watcher.payloads(), ["online"])
        camera.vanish()
        self.assertEqual(watcher.payloads(), ["offline"])


class Sparkplug(PageTest):
    """The client of Eclipse Tahu as an edge node, and a host application with the payloads of the same project."""

    def test_births_commands_and_deaths_reach_the_host(self):
        login = (f"mqtt://127.0.0.1:{self.broker.port}", "home", PASSWORD)
        host, seen = self.start_program("node", HERE / "sparkplug" / "host.cjs", *login)
        seen.wait(lambda line: line == "STATE/host true")
        edge, taken = self.start_program("node", HERE / "sparkplug" / "edge.cjs", *login)
        born = lambda line: line.startswith("plant/NBIRTH/edge Node Control/Rebirth=false,bdSeq=")
        seen.wait(born)
        seen.wait(lambda line: line == "plant/DBIRTH/edge/pump rate=7")
        seen.wait(lambda line: line == "plant/DDATA/edge/pump rate=8")
        host.stdin.write("plant edge\n")
        taken.wait(lambda line: line == "ncmd Node Control/Rebirth")
        seen.wait(born, 2)
        edge.kill()
        seen.wait(lambda line: line.startswith("plant/NDEATH/edge bdSeq="))
        watcher = self.client()
        watcher.subscribe("spBv1.0/STATE/host", qos=1)
        self.assertTrue(json.loads(watcher.payloads()[0])["online"])
        host.kill()
        self.assertFalse(json.loads(watcher.payloads()[0])["online"])


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
