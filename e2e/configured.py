"""A broker with a file of configuration, users and rules, and a listener by Paho."""

import pathlib
import queue
import subprocess
import tempfile

from broker import BINARY, PATIENCE, Broker
from paho.mqtt import client as paho
from paho.mqtt.enums import CallbackAPIVersion


def tidegate(*arguments):
    """The output of a command."""
    return subprocess.run([BINARY, *map(str, arguments)], check=True, capture_output=True, text=True).stdout.strip()


class ConfiguredBroker(Broker):
    """A broker that runs from files in `root`, which it removes in the end. The password of a user is the name, reversed."""

    config_text = ""
    rules_text = ""
    users = ()

    def __init__(self, *arguments):
        self.configuration = tempfile.TemporaryDirectory(prefix="tidegate-e2e-")
        self.root = pathlib.Path(self.configuration.name)
        users = self.root / "users"
        for name in self.users:
            create = [] if users.exists() else ["--create"]
            tidegate("passwd", "--batch", *create, users, name, name[::-1])
        (self.root / "rules.toml").write_text(self.rules_text, encoding="utf-8")
        self.config = self.root / "tidegate.toml"
        self.config.write_text(self.config_text.replace("FOLDER", str(self.root)), encoding="utf-8")
        self.prepare()
        super().__init__(*arguments)

    def prepare(self):
        """Writes further files before the broker starts."""

    def _tidegate(self, arguments):
        return [BINARY, "--config", str(self.config), "--admin", "127.0.0.1:0", "--shards", "2", *arguments]

    def close(self):
        super().close()
        self.configuration.cleanup()


def paho_listener(test, broker, topic, user, password):
    """A client by Paho that has subscribed to a topic, and the queue of its messages. It ends with the test."""
    messages, ready = queue.Queue(), queue.Queue()
    client = paho.Client(CallbackAPIVersion.VERSION2, protocol=paho.MQTTv5)
    client.username_pw_set(user, password)
    client.on_subscribe = lambda *_: ready.put(True)
    client.on_message = lambda _client, _data, message: messages.put(message)
    client.connect("127.0.0.1", broker.port)
    client.loop_start()
    client.subscribe(topic, qos=1)
    test.addCleanup(client.loop_stop)
    test.addCleanup(client.disconnect)
    ready.get(timeout=PATIENCE)
    return client, messages
