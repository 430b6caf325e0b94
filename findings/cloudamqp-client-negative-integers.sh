#!/bin/sh
# @cloudamqp/amqp-client 4.1.1 writes integers from 2^31 to 2^32 - 1 with letter I, which is signed: it reads its own 4294967295
# back as -1. 1e300 becomes the integer 0, and 2^63 (a BigInt) becomes -2^63.
# Expected: letter l (as for 2^32), letter d for 1e300, and an error for an integer of more than 63 bits.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm install --silent --no-audit --no-fund --ignore-scripts --prefix . @cloudamqp/amqp-client@4.1.1
cat >expected <<'EXPECTED'
2147483647 I 2147483647
2147483648 I -2147483648
4294967295 I -1
4294967296 l 4294967296
-2147483649 I 2147483647
1e+300 l 0
9223372036854775808 l -9223372036854776000
EXPECTED
cat >run.cjs <<'NODE'
const { AMQPView } = require('./node_modules/@cloudamqp/amqp-client/lib/cjs/amqp-view.js');
for (const n of [2147483647, 2147483648, 4294967295, 4294967296, -2147483649, 1e300, 2n ** 63n]) {
  const view = new AMQPView(new ArrayBuffer(100));
  const length = view.setTable(0, { n });
  console.log(String(n), Buffer.from(view.buffer).toString('latin1', 6, 7), String(view.getTable(0)[0].n));
}
NODE
node run.cjs >seen
cat seen
diff expected seen
