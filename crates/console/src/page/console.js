"use strict";
// Reads what the broker answers to everybody who may ask, and shows it. Whatever comes from a client is put into the page as
// text and never as markup.

const PERIOD = 2000;       // milliseconds between two looks at the numbers
const KEPT = 300;          // looks that the curve shows: ten minutes
const CLIENTS = 100;       // clients of one answer

const id = (name) => document.getElementById(name);
let token = "";
let before = null;
let looks = [];

function element(name, text, ...children) {
  const made = document.createElement(name);
  if (text !== null) made.textContent = text;
  made.append(...children);
  return made;
}

async function ask(path) {
  const headers = token ? { Authorization: "Bearer " + token } : {};
  const answer = await fetch(path, { headers, cache: "no-store", signal: AbortSignal.timeout(10000) });
  if (answer.ok) return answer;
  const text = await answer.text();
  let said = text.trim();
  try { said = JSON.parse(text).error || said; } catch { /* not JSON: shown as it is */ }
  throw Object.assign(new Error(said), { status: answer.status });
}

// The samples of the text format of Prometheus: name -> [{ labels, value }].
function samples(text) {
  const found = new Map();
  for (const line of text.split("\n")) {
    const match = /^([a-z_:0-9]+)(?:\{(.*)\})? ([^ ]+)$/i.exec(line);
    if (!match) continue;
    const labels = {};
    for (const [, key, value] of (match[2] || "").matchAll(/([a-z_]+)="((?:[^"\\]|\\.)*)"/g)) labels[key] = value;
    if (!found.has(match[1])) found.set(match[1], []);
    found.get(match[1]).push({ labels, value: Number(match[3]) });
  }
  return found;
}

function sum(numbers, name, wanted = {}) {
  const fits = ({ labels }) => Object.entries(wanted).every(([key, value]) => labels[key] === value);
  return (numbers.get(name) || []).filter(fits).reduce((total, { value }) => total + value, 0);
}

const whole = (number) => Math.round(number).toLocaleString("en");

const some = (number, what) => `${whole(number)} ${what}${Math.round(number) === 1 ? "" : "s"}`;

function bytes(number) {
  for (const unit of ["B", "KiB", "MiB", "GiB", "TiB"]) {
    if (number < 1024 || unit === "TiB") return (number < 10 && unit !== "B" ? number.toFixed(1) : whole(number)) + " " + unit;
    number /= 1024;
  }
}

function length(seconds) {
  const parts = [["d", 86400], ["h", 3600], ["min", 60], ["s", 1]];
  const first = parts.findIndex(([, size]) => seconds >= size);
  if (first < 0) return "0 s";
  return parts.slice(first, first + 2).map(([unit, size], at) => {
    const number = Math.floor(at ? (seconds % parts[first][1]) / size : seconds / size);
    return `${number} ${unit}`;
  }).join(" ");
}

function card(title, value, more) {
  const made = element("dd", value);
  if (more) made.append(element("small", more));
  return element("div", null, element("dt", title), made);
}

function table(place, head, rows, none) {
  // A column that says nothing of anybody is left out.
  const told = head.map((_, at) => at === 0 || rows.some((row) => row[at] !== ""));
  head = head.filter((_, at) => told[at]);
  rows = rows.map((row) => row.filter((_, at) => told[at]));
  const cell = (name) => (content, at) => {
    const made = element(name, typeof content === "object" ? null : String(content));
    if (typeof content === "object") made.append(content);
    if (head[at].text) made.className = "text";
    // On a phone each cell is a line that names its column.
    if (name === "td") made.dataset.column = head[at].title;
    return made;
  };
  if (!rows.length) {
    const empty = element("td", none);
    empty.className = "none";
    place.replaceChildren(element("tbody", null, element("tr", null, empty)));
    return;
  }
  const top = element("tr", null, ...head.map((column, at) => cell("th")(column.title, at)));
  const body = rows.map((row) => element("tr", null, ...row.map((content, at) => cell("td")(content, at))));
  place.replaceChildren(element("thead", null, top), element("tbody", null, ...body));
}

function showNumbers(numbers) {
  const now = performance.now();
  const totals = {
    in: sum(numbers, "mqtt_messages_total", { direction: "received" }),
    out: sum(numbers, "mqtt_messages_total", { direction: "sent" }),
    received: sum(numbers, "mqtt_bytes_total", { direction: "received" }),
    sent: sum(numbers, "mqtt_bytes_total", { direction: "sent" }),
    cpu: sum(numbers, "process_cpu_seconds_total"),
  };
  const seconds = before ? (now - before.now) / 1000 : 0;
  // A broker that was started again counts from nothing.
  const rate = (name) => (seconds > 0 ? Math.max(0, totals[name] - before.totals[name]) / seconds : 0);
  const rates = { in: rate("in"), out: rate("out") };
  if (before) looks = [...looks, { ...rates, now }].slice(-KEPT);
  const speed = (name) => (before ? bytes(rate(name)) + "/s" : "…");
  const started = sum(numbers, "process_start_time_seconds");
  const version = (numbers.get("tidegate_build_info") || [])[0];
  id("version").textContent = `${version ? version.labels.version : ""}, up ${length(Date.now() / 1000 - started)}`;
  const files = sum(numbers, "process_max_fds");
  id("cards").replaceChildren(
    card("Clients connected", whole(sum(numbers, "mqtt_sessions", { state: "connected" })),
      `${whole(sum(numbers, "mqtt_sessions", { state: "disconnected" }))} away with a session`),
    card("Subscriptions", whole(sum(numbers, "mqtt_subscriptions")),
      `${whole(sum(numbers, "mqtt_subscriptions", { kind: "shared" }))} of them shared`),
    card("From publishers", before ? whole(rates.in) + "/s" : "…", speed("received")),
    card("To subscribers", before ? whole(rates.out) + "/s" : "…", speed("sent")),
    card("Retained", whole(sum(numbers, "mqtt_retained_messages")), bytes(sum(numbers, "mqtt_retained_bytes"))),
    card("Queued", whole(sum(numbers, "mqtt_queue_messages") + sum(numbers, "tidegate_stored_messages")), `${whole(sum(numbers, "mqtt_inflight"))} unacknowledged`),
    card("Not delivered", whole(sum(numbers, "mqtt_messages_dropped_total")), "since the start"),
    card("Slow clients", whole(sum(numbers, "tidegate_slow_sessions")), "queue full, or nothing acknowledged"),
    card("CPU", before ? (100 * rate("cpu")).toFixed(0) + " %" : "…", `of one core, in ${some(sum(numbers, "tidegate_shards"), "shard")}`),
    card("Memory", bytes(sum(numbers, "process_resident_memory_bytes")), `turns take ${(1000 * sum(numbers, "tidegate_loop_lag_seconds")).toFixed(0)} ms`),
    card("Open files", whole(sum(numbers, "process_open_fds")), files ? `of ${whole(files)}` : ""),
    ...store(numbers),
  );
  before = { now, totals };
  chart();
  reasons(numbers);
}

function store(numbers) {
  const states = (numbers.get("tidegate_store_state") || []).filter(({ value }) => value === 1);
  if (!states.length) return [card("Kept on disk", "nothing", "no data directory")];
  return [card("Store", states[0].labels.state, `${bytes(sum(numbers, "tidegate_store_bytes"))}, ${bytes(sum(numbers, "tidegate_store_free_bytes"))} free`)];
}

function chart() {
  const most = Math.max(1, ...looks.map((look) => Math.max(look.in, look.out)));
  const line = (name) => {
    const made = document.createElementNS("http://www.w3.org/2000/svg", "polyline");
    made.setAttribute("class", name);
    const last = looks.length - 1;
    const room = Math.max(30, looks.length) - 1;
    made.setAttribute("points", looks.map((look, at) => `${600 - (600 * (last - at)) / room},${158 - (150 * look[name]) / most}`).join(" "));
    return made;
  };
  id("chart").replaceChildren(...(looks.length > 1 ? [line("in"), line("out")] : []));
  id("most").textContent = looks.length > 1 ? `the top is ${some(most, "message")} per second` : "the curve begins with the second look";
  id("span").textContent = looks.length > 1 ? `last ${length((looks.at(-1).now - looks[0].now) / 1000)}` : "";
}

function reasons(numbers) {
  const rows = [];
  const groups = [["mqtt_messages_dropped_total", "message not delivered"], ["mqtt_connect_total", "connection refused"],
    ["tidegate_connections_refused_total", "closed when it was accepted"], ["mqtt_requests_refused_total", "request refused"],
    ["mqtt_disconnects_total", "connection ended"]];
  for (const [name, what] of groups) {
    for (const { labels, value } of numbers.get(name) || []) {
      const reason = labels.reason || labels.result;
      if (value > 0 && reason !== "accepted") rows.push([reason, what, whole(value), value]);
    }
  }
  rows.sort((one, other) => other[3] - one[3]);
  table(id("reasons"), [{ title: "Reason" }, { title: "What", text: true }, { title: "How often" }], rows.map((row) => row.slice(0, 3)), "nothing so far");
}

function link(name) {
  const button = element("button", name === "" ? "(empty)" : name);
  button.type = "button";
  button.title = "what happened to it";
  button.addEventListener("click", () => {
    askAbout("client", name);
    id("why").scrollIntoView();
  });
  return button;
}

// The name is in the address of the page then, so that a story can be passed on.
function askAbout(kind, name) {
  id("kind").value = kind;
  id("name").value = name;
  history.replaceState(null, "", `#${kind}=${encodeURIComponent(name)}`);
  why();
}

// What the address asks about, as in #client=sensor-17.
function asked() {
  const match = /^#(client|topic|address)=(.*)$/.exec(location.hash);
  if (!match) return;
  try { askAbout(match[1], decodeURIComponent(match[2])); } catch { /* no text */ }
}

// Whoever is about to press something in a table finds it where it was.
const inUse = (place) => place.contains(document.activeElement);

async function showSlow() {
  if (inUse(id("slowest"))) return;
  const { clients } = await (await ask("api/v1/slow?limit=20")).json();
  const rows = clients.map((client) => [link(client.client), client.node, client.connected ? "connected" : "away",
    client.unacknowledged_packet_id === null ? "" : `${whole(client.inflight_messages)}, nothing for ${length(client.waiting_ms / 1000)}`,
    `${whole(client.queued_messages)} (${bytes(client.queued_bytes)})`, whole(client.blocked_publishers)]);
  table(id("slowest"), [{ title: "Client" }, { title: "Node", text: true }, { title: "", text: true }, { title: "Unacknowledged" }, { title: "Queued" }, { title: "Publishers waiting" }],
    rows, "none: all acknowledge in time, and no queue is full");
}

async function showPipelines() {
  const pipelines = Object.entries(await (await ask("api/v1/hub")).json());
  id("pipelines").hidden = !pipelines.length;
  const rows = pipelines.map(([name, it]) => [name, it.node || "", it.state, whole(it.in), whole(it.out), whole(it.failed), whole(it.dropped || 0), whole(it.retried || 0),
    whole(it.waiting), length(it.lag_s), it.batches ? `${(1000 * it.batch_s / it.batches).toFixed(1)} ms` : "", it.error || ""]);
  table(id("piped"), [{ title: "Pipeline", text: true }, { title: "Node", text: true }, { title: "State", text: true }, { title: "In" }, { title: "Out" }, { title: "Failed" },
    { title: "Dropped" }, { title: "Retried" }, { title: "Waiting" }, { title: "Lag" }, { title: "Batch" }, { title: "Error", text: true }], rows, "none");
}

// A node of a cluster has samples of its membership.
async function showCluster(numbers) {
  const isMember = numbers.has("tidegate_cluster_member");
  id("cluster").hidden = !isMember;
  if (!isMember) return;
  const view = await (await ask("api/v1/cluster")).json();
  const part = (share) => `${(100 * share).toFixed(0)} %`;
  const load = (node) => (node.load ? `${part(node.load.busy)} busy, ${some(node.load.clients, "client")}` : "");
  const state = (node) => (node.leaving ? "leaves" : node.name === view.name ? "this node" : node.link || "no link");
  const members = view.nodes.map((node) => [node.name, state(node), whole(node.partitions), part(node.partitions / view.homes.length),
    whole((node.weight ?? 100) * node.factor), load(node), node.mqtt || ""]);
  id("table").textContent = `Table ${whole(view.epoch)}${view.leads ? ", led by this node" : ""}; ${some(view.moved_in, "partition")} came here and ${whole(view.moved_out)} left since the start.`;
  table(id("members"), [{ title: "Node", text: true }, { title: "State", text: true }, { title: "Partitions" }, { title: "Share" }, { title: "Weight" },
    { title: "Load", text: true }, { title: "For clients", text: true }], members, "no node has joined yet");
  table(id("moves"), [{ title: "From", text: true }, { title: "To", text: true }, { title: "Partitions that move" }],
    view.moves.map((it) => [it.from, it.to, whole(it.partitions.length)]), "nothing moves");
}

// The numbers above are of this node alone.
async function showTotals() {
  const { sum, nodes, unreachable } = await (await ask("api/v1/totals")).json();
  const row = (name, it) => [name, whole(it.clients_connected), whole(it.sessions), whole(it.subscriptions), whole(it.retained_messages),
    whole(it.queued_messages), whole(it.messages_in), whole(it.messages_out), whole(it.messages_dropped)];
  const silent = unreachable.map((name) => [name, "no answer", "", "", "", "", "", "", ""]);
  table(id("totals"), [{ title: "Node", text: true }, { title: "Clients" }, { title: "Sessions" }, { title: "Subscriptions" }, { title: "Retained" },
    { title: "Queued" }, { title: "Received" }, { title: "Sent" }, { title: "Dropped" }],
    [row("all", sum), ...nodes.map((it) => row(it.node, it)), ...silent], "none");
}

// Beside a look, which does not wait for it: a node that is slow to answer, or fails, takes nothing else away.
let totalsAsked = false;
async function beginTotals() {
  if (totalsAsked || id("cluster").hidden) return;
  totalsAsked = true;
  try { await showTotals(); } catch (error) { table(id("totals"), [{ title: "Node" }], [], problem(error)); }
  totalsAsked = false;
}

let shown = [];
let turn = 0;

async function showClients(further) {
  const last = further && shown.at(-1);
  let path = `api/v1/clients?limit=${CLIENTS}&filters=3&containing=${encodeURIComponent(id("containing").value)}`;
  if (last) path += `&after=${encodeURIComponent(last.client)}&after_tenant=${encodeURIComponent(last.tenant)}`;
  const { clients, more } = await (await ask(path)).json();
  shown = further ? [...shown, ...clients] : clients;
  const rows = shown.map((client) => {
    const left = client.subscriptions - client.filters.length;
    const filters = client.filters.join(", ") + (left > 0 && client.filters.length ? ` and ${whole(left)} more` : "");
    return [link(client.client), client.tenant, client.node, client.connected ? client.address || "connected" : "away", client.user || "",
      client.version || "", filters, whole(client.inflight_messages), whole(client.queued_messages)];
  });
  table(id("clients"), [{ title: "Client" }, { title: "Tenant", text: true }, { title: "Node", text: true }, { title: "From", text: true }, { title: "User", text: true }, { title: "MQTT" },
    { title: "Subscriptions", text: true }, { title: "In flight" }, { title: "Queued" }], rows, id("containing").value ? "no such client is there" : "nobody is there yet; try tidegate sub -t '#' -v, and tidegate pub -t hello -m world");
  id("further").hidden = !more;
}

async function why() {
  const [kind, name] = [id("kind").value, id("name").value];
  let items;
  try {
    const story = await (await ask(`api/v1/why?${kind}=${encodeURIComponent(name)}`)).json();
    items = story.events.reverse().map((event) => {
      const about = [["client", event.client], ["tenant", event.tenant], ["topic", event.topic], ["from", event.address], ["on", event.node]]
        .filter(([word, value]) => value && word !== kind).map(([word, value]) => `, ${word} ${value}`).join("");
      const lines = [`${new Date(event.at_ms).toLocaleString()}  ${event.kind.replaceAll("_", " ")}${about}`];
      if (event.reason) lines.push(`why: ${event.reason.text} (reason ${event.reason.number}, ${event.reason.label})`);
      if (event.detail) lines.push(`what: ${event.detail}`);
      if (event.reason && event.reason.advice) lines.push(`do: ${event.reason.advice.replaceAll("`", "")}`);
      if (event.suppressed) lines.push(`before it: ${whole(event.suppressed)} like it that were only counted`);
      return element("li", null, ...lines.map((line) => element("p", line)));
    });
    if (!items.length) items = [element("li", `nothing is remembered about ${kind} ${name}: nothing happened lately, or it never reached this broker`)];
  } catch (error) {
    items = [element("li", problem(error))];
  }
  id("story").replaceChildren(...items);
}

function problem(error) {
  if (error.status === undefined) return `the broker does not answer: ${error.message}`;
  return error.message;
}

function tell(text, good) {
  id("state").textContent = text;
  id("state").className = good ? "good" : "bad";
  document.body.classList.toggle("stale", !good && !text.startsWith("not ready"));
}

async function look(everything) {
  try {
    const numbers = samples(await (await ask("metrics")).text());
    showNumbers(numbers);
    await showSlow();
    await showCluster(numbers);
    beginTotals();
    if (everything || turn % 5 === 0) await showPipelines();
    if (everything || (turn % 5 === 0 && shown.length <= CLIENTS && !inUse(id("clients")))) await showClients(false);
    turn += 1;
    id("login").hidden = true;
    const ready = await fetch("readyz", { cache: "no-store" });
    const said = (await ready.text()).trim();
    tell(ready.ok ? "ready" : `not ready: ${said}`, ready.ok);
    return true;
  } catch (error) {
    id("login").hidden = error.status !== 401;
    tell(error.status === 401 ? (token ? "the token is not the right one" : "this broker asks for a token") : problem(error), false);
    return false;
  }
}

// One look after the other, so that a slow broker is not asked twice at once; none while nobody looks at the page.
let complete = false;
async function watch() {
  const begun = performance.now();
  if (!document.hidden) complete = await look(!complete) || complete;
  // A broker with so many sessions that an answer takes it long is asked less often.
  setTimeout(watch, Math.max(PERIOD, 20 * (performance.now() - begun)));
}

id("login").addEventListener("submit", (event) => {
  event.preventDefault();
  token = id("token").value.trim();
  complete = false;
  look(true).then((done) => { complete = done; });
});
id("find").addEventListener("submit", (event) => {
  event.preventDefault();
  showClients(false).catch((error) => tell(problem(error), false));
});
id("further").addEventListener("click", () => showClients(true).catch((error) => tell(problem(error), false)));
id("ask").addEventListener("submit", (event) => {
  event.preventDefault();
  askAbout(id("kind").value, id("name").value);
});
window.addEventListener("hashchange", asked);
asked();
watch();
