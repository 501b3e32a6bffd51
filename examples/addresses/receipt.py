"""A mobile node, and a sender that waits for the receipt of its message (Paho)."""

import threading
import paho.mqtt.client as mqtt
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

known, answered = threading.Event(), threading.Event()

def receipt(client, userdata, message):
    print("receipt:", message.payload)
    answered.set()

node = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2, client_id="truck-7")   # MQTT 3.1.1, clean session
node.on_connect = lambda *_: known.set()
node.on_message = lambda client, _, message: print(message.topic, message.payload)
node.connect("localhost", 1883)
node.loop_start()                                                           # it subscribes to nothing
known.wait()

sender = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2, client_id="office", protocol=mqtt.MQTTv5)
sender.on_message = receipt
sender.connect("localhost", 1883)
sender.loop_start()
asks = Properties(PacketTypes.PUBLISH)
asks.UserProperty = ("receipt", "all")
asks.CorrelationData = b"order 12"
asks.MessageExpiryInterval = 600
sender.publish("ctx/to/node/truck-7/route", b"north", qos=1, properties=asks)
answered.wait()
