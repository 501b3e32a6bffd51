// An edge node of Sparkplug B with one device, by the client of Eclipse Tahu.
// usage: node edge.cjs URL USER PASSWORD   Prints each command that it takes, and is born again when one asks for it.
const sparkplug = require("sparkplug-client");

const [serverUrl, username, password] = process.argv.slice(2);
const edge = sparkplug.newClient({ serverUrl, username, password, groupId: "plant", edgeNode: "edge", clientId: "edge", version: "spBv1.0" });
edge.on("birth", () => {
  edge.publishNodeBirth({ timestamp: Date.now(), metrics: [{ name: "Node Control/Rebirth", type: "Boolean", value: false }] });
  edge.publishDeviceBirth("pump", { timestamp: Date.now(), metrics: [{ name: "rate", type: "Int32", value: 7 }] });
  edge.publishDeviceData("pump", { timestamp: Date.now(), metrics: [{ name: "rate", type: "Int32", value: 8 }] });
});
edge.on("ncmd", (payload) => {
  console.log("ncmd", payload.metrics[0].name);
  edge.emit("birth");
});
edge.on("error", (error) => {
  console.error(error.message);
  process.exit(1);
});
