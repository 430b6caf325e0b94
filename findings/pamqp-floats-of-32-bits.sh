#!/bin/sh
# pamqp 4.0.1 (the codec of aio-pika 10.2.1 and amqpstorm 3.1.4) writes a float of Python in a table with 32 bits (letter f): 0.1 is read
# back as 0.10000000149011612, 16777217.0 as 16777216.0, and a float above 3.4e38 is refused.
# Expected: letter d, which pamqp reads, because the floats of Python have 64 bits. 64-bit integers keep all their bits.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/python -m pip install --quiet --disable-pip-version-check pamqp==4.0.1
cat >expected <<'EXPECTED'
0.1 f 0.10000000149011612
16777217.0 f 16777216.0
9007199254740993 l 9007199254740993
EXPECTED
venv/bin/python >seen <<'PYTHON'
import pamqp.decode
import pamqp.encode
for number in (0.1, 16777217.0, 2**53 + 1):
    table = pamqp.encode.field_table({'n': number})
    print(number, table[6:7].decode(), pamqp.decode.field_table(table)[1]['n'])
PYTHON
cat seen
diff expected seen
