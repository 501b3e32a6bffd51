// A host application of Sparkplug B: it says that it is online, and prints each message that it takes.
// usage: node host.cjs URL USER PASSWORD   A line of standard input, such as `plant edge`, asks that node to be born again.
const mqtt = require("mqtt");
const { decodePayload, encodePayload } = require("sparkplug-payload").get("spBv1.0");

const [url, username, password] = process.argv.slice(2);
const state = "spBv1.0/STATE/host";
const said = (online) => JSON.stringify({ online, timestamp: Date.now() });
const client = mqtt.connect(url, { username, password, will: { topic: state, payload: said(false), qos: 1, retain: true } });
client.on("connect", async () => {
  await client.subscribeAsync(["spBv1.0/plant/#", state], { qos: 1 });
  await client.publishAsync(state, said(true), { qos: 1, retain: true });
});
client.on("message", (topic, payload) => {
  const told = topic === state ? JSON.parse(payload).online : decodePayload(payload).metrics.map(({ name, value }) => `${name}=${value}`);
  console.log(topic.replace("spBv1.0/", ""), String(told));
});
require("readline").createInterface({ input: process.stdin }).on("line", (line) => {
  const [group, node] = line.split(" ");
  const rebirth = { timestamp: Date.now(), metrics: [{ name: "Node Control/Rebirth", type: "Boolean", value: true }] };
  client.publish(`spBv1.0/${group}/NCMD/${node}`, Buffer.from(encodePayload(rebirth)));
});
