// Runs one scenario: node scenario.mjs NAME URL VERSION PREFIX, where VERSION is 4 (MQTT 3.1.1) or 5.
// Ends with 0 when all is as it should be and names what is not otherwise.

import assert from "node:assert/strict";
import { connect } from "./client.mjs";

const [name, url, version, prefix] = process.argv.slice(2);
const protocolVersion = Number(version);
const options = (more) => ({ protocolVersion, ...more });

const scenarios = {
  // Messages of each QoS arrive complete and in order.
  async roundTrip() {
    const [receiver, sender] = [await connect(url, options()), await connect(url, options())];
    for (const qos of [0, 1, 2]) {
      const topic = `${prefix}/${qos}`;
      assert.equal((await receiver.subscribeAsync(topic, { qos }))[0].qos, qos);
      const payloads = Array.from({ length: 200 }, (_, n) => String(n)).concat("tide ".repeat(50_000));
      // MQTT.js does not count what it has in flight against the server's receive maximum.
      for (let n = 0; n < payloads.length; n += 10) {
        await Promise.all(payloads.slice(n, n + 10).map((payload) => sender.publishAsync(topic, payload, { qos })));
      }
      for (const payload of payloads) {
        const message = await receiver.next();
        assert.equal(message.payload, payload);
        assert.equal(message.packet.qos, qos);
      }
    }
    await Promise.all([receiver.endAsync(), sender.endAsync()]);
  },

  // A retained message meets a later subscriber; a will follows a connection that is cut.
  async retainedAndWill() {
    const sender = await connect(url, options());
    await sender.publishAsync(`${prefix}/retained`, "kept", { qos: 1, retain: true });
    const receiver = await connect(url, options());
    await receiver.subscribeAsync(`${prefix}/#`, { qos: 1 });
    const kept = await receiver.next();
    assert.deepEqual([kept.payload, kept.packet.retain], ["kept", true]);
    const will = { topic: `${prefix}/will`, payload: Buffer.from("gone"), qos: 1, retain: false };
    const mortal = await connect(url, options({ will }));
    mortal.cut();
    const gone = await receiver.next();
    assert.deepEqual([gone.topic, gone.payload, gone.packet.retain], [will.topic, "gone", false]);
    await sender.publishAsync(`${prefix}/retained`, "", { retain: true });
    await Promise.all([receiver.endAsync(), sender.endAsync()]);
  },

  // A session is resumed with what was queued for it.
  async session() {
    const expiry = protocolVersion === 5 ? { properties: { sessionExpiryInterval: 3600 } } : {};
    const durable = options({ clean: false, clientId: `${prefix}-durable`, ...expiry });
    const first = await connect(url, durable);
    await first.subscribeAsync(`${prefix}/queue`, { qos: 1 });
    await first.endAsync();
    const sender = await connect(url, options());
    for (const payload of ["a", "b", "c"]) await sender.publishAsync(`${prefix}/queue`, payload, { qos: 1 });
    const again = await connect(url, durable);
    for (const payload of ["a", "b", "c"]) assert.equal((await again.next()).payload, payload);
    await Promise.all([again.endAsync(), sender.endAsync()]);
  },

  // Properties of MQTT 5 pass through, and topic aliases work in both directions.
  async properties() {
    const receiver = await connect(url, options({ properties: { topicAliasMaximum: 4 } }));
    const sender = await connect(url, options({ autoAssignTopicAlias: true, properties: { topicAliasMaximum: 4 } }));
    await receiver.subscribeAsync(`${prefix}/#`, { qos: 1, properties: { subscriptionIdentifier: 9 } });
    const properties = {
      contentType: "text/plain", responseTopic: `${prefix}/reply`, correlationData: Buffer.from([0, 255]),
      userProperties: { step: ["2", "1"] },
    };
    for (let n = 0; n < 20; n++) {
      await sender.publishAsync(`${prefix}/${n % 5}`, String(n), { qos: 1, properties: { ...properties } });
    }
    for (let n = 0; n < 20; n++) {
      const { topic, payload, packet } = await receiver.next();
      assert.deepEqual([topic, payload], [`${prefix}/${n % 5}`, String(n)]);
      assert.equal(packet.properties.contentType, "text/plain");
      assert.equal(packet.properties.responseTopic, `${prefix}/reply`);
      assert.deepEqual(packet.properties.correlationData, Buffer.from([0, 255]));
      assert.deepEqual(packet.properties.userProperties.step, ["2", "1"]);
      assert.equal(packet.properties.subscriptionIdentifier, 9);
    }
    await Promise.all([receiver.endAsync(), sender.endAsync()]);
  },
};

await scenarios[name]();
