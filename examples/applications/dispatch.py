"""An application over MQTT: it gives each truck that reports a job, and prints the receipts.

Several of them share the work. Needs paho-mqtt 2; run it with the broker's host and port.
"""

import sys

import paho.mqtt.client as mqtt
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties


def connected(client, userdata, flags, reason, properties):
    client.subscribe([("$share/dispatch/ctx/to/app/dispatch/#", 1), ("dispatch/receipts", 1)])


def subscribed(client, userdata, message_id, reasons, properties):
    print("ready", flush=True)


def heard(client, userdata, message):
    if message.topic == "dispatch/receipts":
        print("receipt", message.payload.decode(), flush=True)
        return
    truck = message.topic.rsplit("/", 1)[-1]
    print(truck, "says", message.payload.decode(), flush=True)
    asks = Properties(PacketTypes.PUBLISH)
    asks.UserProperty = ("receipt", "all")
    asks.ResponseTopic = "dispatch/receipts"
    asks.MessageExpiryInterval = 600
    client.publish(f"ctx/to/node/{truck}/job", b"load timber", qos=1, properties=asks)


app = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2, protocol=mqtt.MQTTv5)
app.on_connect, app.on_subscribe, app.on_message = connected, subscribed, heard
app.connect(sys.argv[1], int(sys.argv[2]))
app.loop_forever()
