// Send or receive documents with amqplib (npm install amqplib).
//   node document.js send URL TARGET KEY < FILE
//   node document.js receive URL COUNT
const amqp = require("amqplib");
const fs = require("fs");
const [mode, url, first, key] = process.argv.slice(2);

async function send(channel) {
  const headers = { "@AppKey": `trade/order//${key}`, "@Token": key }; // the token makes a repetition harmless
  channel.publish("semq", first, fs.readFileSync(0), { contentType: "application/xml", headers });
  await channel.waitForConfirms(); // rejects if the node did not accept the document
  console.log("accepted");
}

async function receive(channel) {
  await channel.prefetch(16);
  for await (const message of delivered(channel, Number(first))) {
    const { "@Source": source, "@AppKey": appKey } = message.properties.headers;
    console.log(message.properties.messageId, source, appKey, message.content.length);
    channel.ack(message); // only when the document is stored safely
  }
}

async function* delivered(channel, count) {
  const waiting = [];
  let wake = () => {};
  await channel.consume("semq.inbox", (message) => (waiting.push(message), wake()));
  while (count-- > 0) {
    while (!waiting.length) await new Promise((resolve) => (wake = resolve));
    yield waiting.shift();
  }
}

(async () => {
  const connection = await amqp.connect(url);
  const channel = await (mode === "send" ? connection.createConfirmChannel() : connection.createChannel());
  await (mode === "send" ? send(channel) : receive(channel));
  await channel.close(); // first the channel: a connection that is closed at once loses its last acknowledgements
  await connection.close();
})().catch((error) => {
  console.error(error.message);
  process.exit(1);
});
