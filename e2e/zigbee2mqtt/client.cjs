// Zigbee2MQTT's own MQTT client with its own configuration file, without a Zigbee adapter, which a test machine does not have.
// usage: ZIGBEE2MQTT_DATA=DIRECTORY node client.cjs   Prints each message that it takes, as JSON.
const settings = require("zigbee2mqtt/dist/util/settings");
const EventBus = require("zigbee2mqtt/dist/eventBus").default;
const Mqtt = require("zigbee2mqtt/dist/mqtt").default;
const logger = require("zigbee2mqtt/dist/util/logger").default;

const wrong = settings.validate();
if (wrong.length > 0) {
  console.error(wrong.join("\n"));
  process.exit(1);
}
logger.init();
const bus = new EventBus();
const client = new Mqtt(bus);
bus.onMQTTMessage("test", (message) => console.log(JSON.stringify(message)));
client.connect().then(async () => {
  await client.publish("lamp", JSON.stringify({ state: "ON" }), { retain: true, qos: 1 });
  await client.subscribe("zigbee2mqtt/lamp/set");
  console.log("connected");
});
