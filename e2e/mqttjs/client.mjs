// MQTT.js with its events turned into things to wait for. Every wait is bounded by the deadline of the whole scenario,
// which the Python side holds.

import mqtt from "mqtt";

/** A connected client: `next()` gives the next message as `{ topic, payload, packet }`. */
export async function connect(url, options) {
  const client = mqtt.connect(url, { reconnectPeriod: 0, ...options });
  const arrived = [];
  const waiting = [];
  // Before the CONNACK, since what is queued for a session follows it at once.
  client.on("message", (topic, payload, packet) => {
    const message = { topic, payload: payload.toString(), packet };
    const taker = waiting.shift();
    taker ? taker(message) : arrived.push(message);
  });
  client.next = () =>
    arrived.length > 0 ? Promise.resolve(arrived.shift()) : new Promise((taker) => waiting.push(taker));
  let expected = false;
  client.cut = () => {
    expected = true;
    client.stream.destroy();
  };
  client.on("close", () => {
    if (!expected && !client.disconnecting) throw new Error("the broker ended the connection");
  });
  await new Promise((connected, failed) => {
    client.once("connect", connected);
    client.once("error", failed);
  });
  return client;
}
