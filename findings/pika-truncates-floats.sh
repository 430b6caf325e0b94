#!/bin/sh
# pika 1.4.4 reads a floating-point number in a table (letters f and d) as an integer: 2.75 is 2, 0.5 is 0.
# Expected: 2.75, as pamqp (aio-pika) reads the same bytes. Headers and arguments lose their fraction without an error.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/python -m pip install --quiet --disable-pip-version-check pika==1.4.4 pamqp==4.0.1
cat >expected <<'EXPECTED'
pamqp {'weight': 2.75, 'rate': 0.5}
pika {'weight': 2, 'rate': 0}
True
EXPECTED
venv/bin/python >seen <<'PYTHON'
import struct
import pamqp.decode
import pika.data
fields = b'\x06weightd' + struct.pack('>d', 2.75) + b'\x04ratef' + struct.pack('>f', 0.5)
table = struct.pack('>I', len(fields)) + fields
print('pamqp', {name: float(value) for name, value in pamqp.decode.field_table(table)[1].items()})
print('pika', {name: int(value) for name, value in pika.data.decode_table(table, 0)[0].items()})
print(pika.data.decode_table(table, 0)[0] == {'weight': 2, 'rate': 0})
PYTHON
cat seen
diff expected seen
