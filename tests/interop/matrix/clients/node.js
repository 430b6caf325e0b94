// amqplib, rabbitmq-client and @cloudamqp/amqp-client: arguments, input and output as in python.py.
const [client, mode, url, place, key] = process.argv.slice(2);

function built([kind, value]) {
  switch (kind) {
    case "int": return Number.isSafeInteger(Number(value)) ? Number(value) : BigInt(value);
    case "float": return Number(value);
    case "bytes": case "octets": return Buffer.from(value, "hex");
    case "date": return new Date(Number(value) * 1000);
    case "decimal": throw new TypeError("no decimals");
    case "array": return value.map(built);
    case "table": return Object.fromEntries(Object.entries(value).map(([name, each]) => [name, built(each)]));
    default: return value;
  }
}

function shown(value) {
  if (value === null || value === undefined) return ["null"];
  if (typeof value === "boolean") return ["bool", String(value)];
  if (typeof value === "bigint") return ["int", String(value)];
  if (typeof value === "number") return Number.isInteger(value) ? ["int", BigInt(value).toString()] : ["float", String(value)];
  if (typeof value === "string") return ["text", value];
  if (value instanceof Uint8Array) return ["bytes", Buffer.from(value).toString("hex")];
  if (value instanceof Date) return ["date", String(Math.floor(value.getTime() / 1000))];
  if (Array.isArray(value)) return ["array", value.map(shown)];
  if (value["!"] !== undefined) {
    if (value["!"] === "timestamp") return ["date", String(value.value)];
    if (value["!"] === "decimal") return ["decimal", (value.value.digits / 10 ** value.value.places).toFixed(value.value.places)];
  }
  if (typeof value === "object") return ["table", Object.fromEntries(Object.entries(value).map(([n, each]) => [n, shown(each)]))];
  return ["other", typeof value];
}

const camel = (name) => name.replace(/_(.)/g, (_, letter) => letter.toUpperCase());

// Properties of a message. A time is a Date, where the client takes one; a delivery mode a number or, for rabbitmq-client, ``durable``.
function messageOf(kind, value) {
  if (kind !== "property") return { headers: { v: built([kind, value]) } };
  const [name, ...typed] = value;
  const given = built(typed);
  if (name === "timestamp" && client !== "@cloudamqp/amqp-client") return { timestamp: given.getTime() / 1000 };
  if (name === "delivery_mode" && client === "rabbitmq-client") return { durable: given === 2 };
  return { [camel(name)]: given };
}

// Print the header ``v`` of a message, or the property after which it is named.
function show(name, headers, properties) {
  if (mode === "receive") say(name, shown(headers.v));
  else if (name === "delivery_mode" && client === "rabbitmq-client") say(name, shown(properties.durable ? 2 : 1));
  else say(name, shown(properties[camel(name)]));
}

const say = (name, what) => process.stdout.write(JSON.stringify([name, what]) + "\n");
const lines = () => require("fs").readFileSync(0, "utf8").split("\n").filter(Boolean).map((line) => JSON.parse(line));

async function sendAll(publish) {
  for (const [name, kind, value] of lines()) {
    try {
      await publish(name, messageOf(kind, value));
      say(name, "");
    } catch (error) {
      say(name, error.constructor.name);
      process.exit(3);
    }
  }
}

async function withAmqplib() {
  const connection = await require("amqplib").connect(url);
  connection.on("error", () => process.exit(3));
  if (mode === "send") {
    const channel = await connection.createConfirmChannel();
    channel.on("error", () => {});
    await sendAll((name, properties) => new Promise((done, failed) =>
      channel.publish(place, key, Buffer.from(name), properties, (error) => (error ? failed(error) : done()))));
    return connection.close();
  }
  const channel = await connection.createChannel();
  for (let message; (message = await channel.get(place, { noAck: true })); )
    show(message.content.toString(), message.properties.headers, message.properties);
  return connection.close();
}

async function withRabbitmqClient() {
  const { Connection } = require("rabbitmq-client");
  const connection = new Connection({ url, connectionTimeout: 20000, retryLow: 60000 });
  connection.on("error", () => process.exit(3));
  if (mode === "send") {
    const channel = await connection.acquire();
    channel.on("error", () => {});
    await channel.confirmSelect();
    await sendAll((name, properties) => channel.basicPublish({ exchange: place, routingKey: key, ...properties }, Buffer.from(name)));
    await channel.close();
  } else {
    const channel = await connection.acquire();
    for (let message; (message = await channel.basicGet({ queue: place, noAck: true })); )
      show(message.body.toString(), message.headers, message);
    await channel.close();
  }
  return connection.close();
}

async function withCloudamqp() {
  const { AMQPClient } = require("@cloudamqp/amqp-client");
  const connection = await new AMQPClient(url).connect();
  const channel = await connection.channel();
  if (mode === "send") {
    await channel.confirmSelect();
    await sendAll((name, properties) => channel.basicPublish(place, key, name, properties));
  } else {
    for (let message; (message = await channel.basicGet(place, { noAck: true })); )
      show(message.bodyString(), message.properties.headers, message.properties);
  }
  return connection.close();
}

const run = { amqplib: withAmqplib, "rabbitmq-client": withRabbitmqClient, "@cloudamqp/amqp-client": withCloudamqp }[client];
run().then(() => process.exit(0), (error) => { console.error(error); process.exit(3); });
