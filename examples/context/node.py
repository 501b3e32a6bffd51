"""A mobile node that reports its context and follows handovers. Needs paho-mqtt 2."""

import json, time
import paho.mqtt.client as mqtt

gateways = []                                                   # as the last list says, the lightest first

def turn_to(client, address):
    host, _, port = address.rpartition(":")
    client.connect_async(host, int(port))                       # where the next attempt goes

def turn_to_next(client):
    if gateways:
        gateways.append(gateways.pop(0))
        turn_to(client, gateways[-1])

def gone(client, userdata, flags, reason, properties):
    reference = getattr(properties, "ServerReference", None)
    turn_to(client, reference) if reference else turn_to_next(client)

def heard(client, userdata, message):
    if message.topic == "ctx/gateways":
        gateways[:] = [gateway["address"] for gateway in json.loads(message.payload)["gateways"]]
    else:
        print(message.topic, message.payload)

node = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2, client_id="truck-7", protocol=mqtt.MQTTv5)
node.on_connect = lambda client, *_: client.subscribe("ctx/gateways")
node.on_disconnect, node.on_message = gone, heard
node.on_connect_fail = lambda client, userdata: turn_to_next(client)
node.connect("10.0.0.1")
node.loop_start()
while True:
    node.publish("ctx/context/truck-7", json.dumps({"latitude": 53.54, "longitude": 9.98, "speed": 62}), qos=1)
    time.sleep(5)
