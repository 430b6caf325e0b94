#!/bin/sh
# amqp 5.4.2 (py-amqp, the client of kombu and Celery) writes integers from 2^31 and up to -2^31 with letter L. amqplib 2.3.1 (npm) does
# not know L and cannot read such a table; it reads the same number with letter l, which pika 1.4.4 writes.
# Expected: two clients of one broker read the numbers of each other.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/python -m pip install --quiet --disable-pip-version-check amqp==5.4.2 pika==1.4.4
npm install --silent --no-audit --no-fund --ignore-scripts --prefix . amqplib@2.3.1
cat >expected <<'EXPECTED'
pika {"n":3000000000}
py-amqp Unexpected type tag "L"
EXPECTED
venv/bin/python >tables <<'PYTHON'
import amqp.serialization
import pika.data
pieces = []
pika.data.encode_table(pieces, {'n': 3_000_000_000})
for name, table in (('pika', b''.join(pieces)), ('py-amqp', amqp.serialization.dumps('F', ({'n': 3_000_000_000},)))):
    print(name, table.hex())
PYTHON
cat >run.cjs <<'NODE'
const codec = require('./node_modules/amqplib/lib/codec.js');
for (const line of require('fs').readFileSync('tables', 'utf8').trim().split('\n')) {
  const [name, hex] = line.split(' ');
  try { console.log(name, JSON.stringify(codec.decodeFields(Buffer.from(hex, 'hex').subarray(4)))); }
  catch (error) { console.log(name, error.message); }
}
NODE
node run.cjs >seen
cat seen
diff expected seen
