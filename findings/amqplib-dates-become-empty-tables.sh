#!/bin/sh
# amqplib 2.3.1 (npm) writes a Date in a header as an empty table, without an error.
# Expected: letter T, as other clients write a date, or an error as for a value without a type of AMQP. (A date has to be given as
# { "!": "timestamp", value: SECONDS }.)
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm install --silent --no-audit --no-fund --ignore-scripts --prefix . amqplib@2.3.1
cat >expected <<'EXPECTED'
F {"due":{}}
TypeError
EXPECTED
cat >run.cjs <<'NODE'
const codec = require('./node_modules/amqplib/lib/codec.js');
const buffer = Buffer.alloc(100);
const length = codec.encodeTable(buffer, { due: new Date(1774958400000) }, 0);
console.log(buffer.toString('latin1', 8, 9), JSON.stringify(codec.decodeFields(buffer.subarray(4, length))));
try { codec.encodeTable(buffer, { due: Symbol('x') }, 0); } catch (error) { console.log(error.name); }
NODE
node run.cjs >seen
cat seen
diff expected seen
