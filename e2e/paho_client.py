"""Paho's client with its callbacks turned into things to wait for."""

import queue
import socket

import paho.mqtt.client as paho
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from broker import PATIENCE

MQTT_3_1_1 = paho.MQTTv311
MQTT_5 = paho.MQTTv5


def properties(packet, **values):
    """The properties of an MQTT 5 packet, such as `properties("PUBLISH", ContentType="text/plain")`."""
    made = Properties(getattr(PacketTypes, packet))
    for name, value in values.items():
        setattr(made, name, value)
    return made


class Client:
    """A connected client. Every wait is bounded and says what did not come."""

    def __init__(self, broker, client_id="", version=MQTT_5, transport="tcp", clean=True, expiry=None, will=None,
                 user=None, password="secret"):
        self.messages = queue.Queue()
        self.ended = queue.Queue()
        self.connected = queue.Queue()
        self.granted = queue.Queue()
        self.version = version
        arguments = {} if version == MQTT_5 else {"clean_session": clean}
        self.paho = paho.Client(
            paho.CallbackAPIVersion.VERSION2, client_id=client_id, protocol=version, transport=transport,
            reconnect_on_failure=False, **arguments,
        )
        self.paho.on_connect = lambda _client, _data, flags, code, _properties: self.connected.put((flags, code))
        self.paho.on_disconnect = lambda _client, _data, flags, code, _properties: self.ended.put((flags, code))
        self.paho.on_subscribe = lambda _client, _data, _id, codes, _properties: self.granted.put(codes)
        self.paho.on_message = lambda _client, _data, message: self.messages.put(message)
        if will:
            self.paho.will_set(**will)
        if user:
            self.paho.username_pw_set(user, password)
        self._connect(broker, clean, expiry)

    def _connect(self, broker, clean, expiry):
        place = {"tcp": ("127.0.0.1", broker.port), "websockets": ("127.0.0.1", broker.websocket_port),
                 "unix": (broker.path, 1)}[self.paho._transport]
        if self.paho._transport == "websockets":
            self.paho.ws_set_options(path="/mqtt")
        arguments = {}
        if self.version == MQTT_5:
            arguments["clean_start"] = clean
            if expiry is not None:
                arguments["properties"] = properties("CONNECT", SessionExpiryInterval=expiry)
        self.paho.connect(*place, keepalive=60, **arguments)
        self.paho.loop_start()
        self.flags, self.code = self.connected.get(timeout=PATIENCE)
        assert not self.code.is_failure, f"the connection was refused: {self.code}"

    def subscribe(self, *arguments, **named):
        """Subscribes and waits for the SUBACK; gives the granted codes as numbers."""
        self.paho.subscribe(*arguments, **named)
        return [code.value for code in self.granted.get(timeout=PATIENCE)]

    def publish(self, *arguments, **named):
        """Publishes and waits until the handshake of its QoS is complete."""
        sent = self.paho.publish(*arguments, **named)
        sent.wait_for_publish(PATIENCE)
        assert sent.is_published(), "a message was not acknowledged"

    def receive(self, number=1):
        """The next messages in the order of their arrival."""
        received = []
        for _ in range(number):
            try:
                received.append(self.messages.get(timeout=PATIENCE))
            except queue.Empty:
                raise AssertionError(f"{len(received)} of {number} messages came") from None
        return received

    def payloads(self, number=1):
        """The payloads of the next messages."""
        return [message.payload.decode() for message in self.receive(number)]

    def end(self):
        """Waits for the end of the connection; gives its code and whether the server's DISCONNECT carried it."""
        flags, code = self.ended.get(timeout=PATIENCE)
        return code, flags.is_disconnect_packet_from_server

    def leave(self):
        """Disconnects as a client should and joins the thread."""
        self.paho.disconnect()
        self.paho.loop_stop()

    def vanish(self):
        """Ends the TCP connection without a DISCONNECT."""
        self.paho.socket().shutdown(socket.SHUT_RDWR)
        self.end()
        self.paho.loop_stop()
