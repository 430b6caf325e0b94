// Publishes each document that it reads as a line of JSON, and answers with a line: confirmed, REFUSED or in doubt.
const amqplib = require(process.cwd() + "/node_modules/amqplib");
const readline = require("readline");
const REFUSED_FOR_NOW = 541;

let channel = null;
let refusal = null;

async function opened(url) {
  const connection = await amqplib.connect(url);
  const made = await connection.createConfirmChannel();
  connection.on("error", () => {});
  connection.on("close", () => { if (channel === made) channel = null; });
  made.on("error", (error) => { refusal = error; });
  made.on("close", () => { if (channel === made) channel = null; connection.close().catch(() => {}); });
  return made;
}

async function publish(url, act) {
  refusal = null;
  try {
    channel = channel || (await opened(url));
    channel.publish("semq", act.target, Buffer.from(act.body, "base64"), act.options);
    await channel.waitForConfirms();
    return { word: "confirmed", reason: "" };
  } catch (error) {
    await new Promise(setImmediate);
    if (refusal && refusal.code && refusal.code !== REFUSED_FOR_NOW) return { word: "REFUSED", reason: refusal.message };
    return { word: "in doubt", reason: String(error) };
  }
}

(async () => {
  for await (const line of readline.createInterface({ input: process.stdin })) {
    console.log(JSON.stringify(await publish(process.argv[2], JSON.parse(line))));
  }
  process.exit(0);
})();
