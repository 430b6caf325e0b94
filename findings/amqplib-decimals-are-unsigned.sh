#!/bin/sh
# amqplib 2.3.1 (npm) reads a negative decimal in a table (letter D) as unsigned: -0.05 is 42949672.91.
# pika 1.4.4 wrote it, and reads it as -0.05, as RabbitMQ and other clients do.
# Expected: the same number at both ends.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/python -m pip install --quiet --disable-pip-version-check pika==1.4.4
npm install --silent --no-audit --no-fund --ignore-scripts --prefix . amqplib@2.3.1
cat >expected <<'EXPECTED'
pika -0.05
amqplib 4294967291 with 2 places
EXPECTED
venv/bin/python >table <<'PYTHON'
from decimal import Decimal
import pika.data
pieces = []
pika.data.encode_table(pieces, {'price': Decimal('-0.05')})
table = b''.join(pieces)
print(table.hex())
print('pika', pika.data.decode_table(table, 0)[0]['price'])
PYTHON
cat >run.cjs <<'NODE'
const [hex, shown] = require('fs').readFileSync('table', 'utf8').split('\n');
const { price } = require('./node_modules/amqplib/lib/codec.js').decodeFields(Buffer.from(hex, 'hex').subarray(4));
console.log(shown);
console.log('amqplib', price.value.digits, 'with', price.value.places, 'places');
NODE
node run.cjs >seen
cat seen
diff expected seen
