#!/bin/sh
# rabbitmq-client 5.0.8 (npm) cuts routing keys, names and other short strings at 255 bytes, without an error, so that a message takes
# another way than its key says. Expected: an error, because AMQP permits 255 bytes.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm install --silent --no-audit --no-fund --ignore-scripts --prefix . rabbitmq-client@5.0.8
cat >expected <<'EXPECTED'
rabbitmq-client 265 bytes are 255 ending with a.a.b
EXPECTED
cat >run.cjs <<'NODE'
const codec = require('./node_modules/rabbitmq-client/lib/codec.js');
const routingKey = 'a.'.repeat(127) + 'b.important';
const [frame] = codec.genContentFrames(1, { exchange: 'orders', routingKey }, Buffer.from('x'), 131072);
const at = frame.indexOf('a.');
console.log('rabbitmq-client', Buffer.byteLength(routingKey), 'bytes are', frame[at - 1], 'ending with', frame.toString('latin1', at + 250, at + 255));
NODE
node run.cjs >seen
cat seen
diff expected seen
