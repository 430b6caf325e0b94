#!/bin/sh
# amqp 5.4.2 (py-amqp, the client of kombu and Celery) reads a timestamp (letter T) as a datetime without a time zone, in UTC. Python takes
# it for local time: in Shanghai, timestamp() of a time read from a header is 8 hours early, and it cannot be compared with the
# datetimes that pika 1.4.4 and pamqp 4.0.1 (aio-pika) read. Expected: the time zone UTC, which it respects when it writes.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/python -m pip install --quiet --disable-pip-version-check amqp==5.4.2 pika==1.4.4 pamqp==4.0.1
cat >expected <<'EXPECTED'
sent 1774958400
pika 1774958400
pamqp 1774958400
py-amqp 1774929600
EXPECTED
TZ=Asia/Shanghai venv/bin/python >seen <<'PYTHON'
from datetime import UTC, datetime
import amqp.serialization
import pamqp.decode
import pika.data
table = amqp.serialization.dumps('F', ({'at': datetime(2026, 3, 31, 12, 0, tzinfo=UTC)},))
print('sent', int.from_bytes(table[-8:], 'big'))
print('pika', round(pika.data.decode_table(table, 0)[0]['at'].timestamp()))
print('pamqp', round(pamqp.decode.field_table(table)[1]['at'].timestamp()))
print('py-amqp', round(amqp.serialization.loads('F', table, 0)[0][0]['at'].timestamp()))
PYTHON
cat seen
diff expected seen
