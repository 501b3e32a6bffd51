// An application over MQTT: it gives each truck that reports a job, and hears what became of it.
// Several of them share the work. Needs mqtt 5; run it with the address of the broker, such as mqtt://localhost.
import mqtt from "mqtt";

const app = mqtt.connect(process.argv[2], { protocolVersion: 5 });
const receipt = { receipt: "all" };

app.on("connect", async () => {
  await app.subscribeAsync(["$share/dispatch/ctx/to/app/dispatch/#", "dispatch/receipts"], { qos: 1 });
  console.log("ready");
});

app.on("message", (topic, payload) => {
  if (topic === "dispatch/receipts") {
    console.log("receipt", payload.toString());
    return;
  }
  const truck = topic.split("/").at(-1);
  console.log(truck, "says", payload.toString());
  app.publish(`ctx/to/node/${truck}/job`, "load timber", {
    qos: 1,
    properties: { userProperties: receipt, responseTopic: "dispatch/receipts", messageExpiryInterval: 600 },
  });
});
