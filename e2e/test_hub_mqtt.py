"""A pipeline into another broker: kill -9 of both."""

import json
import threading
import unittest

from broker import PATIENCE, Broker, free_ports
from paho.mqtt import client as paho
from paho.mqtt.enums import CallbackAPIVersion
from pipelines import PipelineCase


class Other:
    """The other broker, with a client that has a lasting session at it; both come back after a kill."""

    def __init__(self, test, folder):
        self.folder, self.port, self.broker = folder, free_ports(1)[0], None
        self.seen, self.changed = [], threading.Condition()
        self.client = paho.Client(CallbackAPIVersion.VERSION2, client_id="keeper", clean_session=False)
        self.client.reconnect_delay_set(1, 1)
        self.client.on_message = self._on_message
        test.addCleanup(self.stop)
        test.addCleanup(self.client.loop_stop)

    def _on_message(self, _client, _data, message):
        with self.changed:
            self.seen.append(json.loads(message.payload)["temp"])
            self.changed.notify_all()

    def start(self):
        listen = ("--listen", f"127.0.0.1:{self.port}", "--set", "queue.max_messages=100000")
        self.broker = Broker("--data", str(self.folder / "other"), *listen)

    def stop(self):
        if self.broker:
            self.broker.close()
            self.broker = None

    def subscribe(self):
        """Subscribes, and goes on to receive in the background."""
        subscribed = threading.Event()
        self.client.on_connect = lambda client, *_: client.subscribe("plant/#", qos=1)
        self.client.on_subscribe = lambda *_: subscribed.set()
        self.client.connect("127.0.0.1", self.port)
        self.client.loop_start()
        assert subscribed.wait(PATIENCE)

    def wait(self, wanted):
        """Waits until all of these came."""
        with self.changed:
            if not self.changed.wait_for(lambda: wanted <= set(self.seen), PATIENCE):
                raise AssertionError(f"missing: {sorted(wanted - set(self.seen))}")


class IntoAnotherBroker(PipelineCase):
    def test_no_acknowledged_message_is_lost_by_kill_9_of_both(self):
        other = Other(self, self.folder)
        self.config.write_text(
            f'[[sink]]\nname = "cloud"\nkind = "mqtt"\nurl = "mqtt://127.0.0.1:{other.port}"\n'
            'retry_min = "50ms"\nretry_max = "200ms"\n'
            '[[pipeline]]\nname = "hot"\nfrom = ["plant/+/temp"]\nto = ["cloud"]\n',
            encoding="utf-8",
        )
        other.start()
        other.subscribe()
        other.wait(self.kill_again_and_again(server=other))

    def test_a_topic_without_rights_does_not_stop_the_others(self):
        rights, dead = self.folder / "rights.toml", self.folder / "dead.ndjson"
        rights.write_text(
            "[[rule]]\nallow = false\ntopics = ['plant/secret/#']\n[[rule]]\nallow = true\ntopics = ['#']\n",
            encoding="utf-8",
        )
        other = Broker("--set", f"access.rules_file={rights}")
        self.addCleanup(other.close)
        self.config.write_text(
            f'[[sink]]\nname = "cloud"\nkind = "mqtt"\nurl = "mqtt://127.0.0.1:{other.port}"\n'
            f'[[sink]]\nname = "dead"\nkind = "file"\npath = "{dead}"\n'
            '[[pipeline]]\nname = "hot"\nfrom = ["plant/+/temp"]\nto = ["cloud"]\ndead_letter = "dead"\n',
            encoding="utf-8",
        )
        broker = self.broker()
        self.publish(broker, [{"temp": 1}])
        self.publish(broker, [{"temp": 2}], "plant/secret/temp")
        self.publish(broker, [{"temp": 3}])
        self.wait(broker, lambda it: (it["out"], it["failed"], it["waiting"]) == (2, 1, 0))
        self.assertIn("access rules do not allow it", json.loads(dead.read_text(encoding="utf-8"))["dead_letter_reason"])


if __name__ == "__main__":
    unittest.main()
