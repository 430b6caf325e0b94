// amqplib against a node: definitions, confirms, returns, prefetch, dead letters, errors. Prints one JSON object.
'use strict';

const amqp = require('amqplib');

async function main(url) {
  const heard = {};
  const connection = await amqp.connect(url, { clientProperties: { connection_name: 'interop' } });
  const channel = await connection.createConfirmChannel();
  await channel.assertQueue('amqplib.dead', { autoDelete: true });
  const { queue } = await channel.assertQueue('', { exclusive: true, deadLetterExchange: '', deadLetterRoutingKey: 'amqplib.dead' });
  heard.named = queue.startsWith('amq.gen-');
  await channel.assertExchange('amqplib.x', 'topic', { autoDelete: true, durable: false });
  await channel.bindQueue(queue, 'amqplib.x', 'a.#');

  const returned = new Promise((resolve) => channel.on('return', resolve));
  channel.publish('amqplib.x', 'b', Buffer.from('nobody'), { mandatory: true });
  heard.returned = (await returned).content.toString();

  for (let n = 0; n < 10; n += 1) {
    channel.publish('amqplib.x', `a.${n}`, Buffer.from(JSON.stringify({ n })), { contentType: 'application/json', headers: { n, big: 2 ** 40 } });
  }
  await channel.waitForConfirms();
  heard.waiting = (await channel.checkQueue(queue)).messageCount;

  await channel.prefetch(3);
  heard.taken = await new Promise((resolve) => {
    const taken = [];
    channel.consume(queue, (message) => {
      taken.push(JSON.parse(message.content).n + message.properties.headers.n);
      if (message.properties.headers.n === 4) channel.nack(message, false, false);
      else channel.ack(message);
      if (taken.length === 10) resolve(taken);
    }, { consumerTag: 'me' });
  });
  await channel.cancel('me');

  let dead = false;
  while (!dead) dead = await channel.get('amqplib.dead');
  heard.death = dead.properties.headers['x-death'][0].reason;
  channel.ack(dead);

  const bad = await connection.createChannel();
  bad.on('error', () => {});
  heard.error = await bad.checkQueue('amqplib.none').then(() => null, (error) => error.code);
  heard.purged = (await channel.purgeQueue(queue)).messageCount;
  await channel.deleteQueue('amqplib.dead');
  await channel.close();
  await connection.close();
  return heard;
}

main(process.argv[2]).then(
  (heard) => console.log(JSON.stringify(heard)),
  (error) => { console.error(error); process.exit(1); },
);
