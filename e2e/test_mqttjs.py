"""MQTT.js, as browsers and Node use it: MQTT 3.1.1 and 5, over TCP and WebSocket. The scenarios are in mqttjs/."""

import pathlib
import subprocess
import unittest

from broker import PATIENCE, BrokerTest

SCENARIO = pathlib.Path(__file__).parent / "mqttjs" / "scenario.mjs"


class MqttJs(BrokerTest):
    pass


def scenario(name, version, transport):
    def test(self):
        url = self.broker.url if transport == "tcp" else self.broker.websocket_url
        command = ["node", str(SCENARIO), name, url, version, self.name()]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PATIENCE)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    return test


for each_transport in ("tcp", "websocket"):
    for each_version, each_name in (("4", "3_1_1"), ("5", "5")):
        for each_scenario in ("roundTrip", "retainedAndWill", "session", "properties"):
            if each_scenario != "properties" or each_version == "5":
                test_name = f"test_{each_scenario}_{each_name}_over_{each_transport}"
                setattr(MqttJs, test_name, scenario(each_scenario, each_version, each_transport))

if __name__ == "__main__":
    unittest.main()
