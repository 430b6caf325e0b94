#!/bin/sh
# pika 1.4.4 raises UnsupportedAMQPFieldException for a float in headers or arguments, as the value of a table and in a list; the
# exception has the value only, not the name of its field. A Decimal is sent. (What it reads: pika-truncates-floats.sh.)
# Expected: letter d, a double of AMQP 0-9-1, as py-amqp 5.4.2 (kombu, Celery) writes a float.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/python -m pip install --quiet --disable-pip-version-check pika==1.4.4 amqp==5.4.2
cat >expected <<'EXPECTED'
py-amqp {'weight': 2.75}
pika {'weight': 2.75} UnsupportedAMQPFieldException([...], 2.75)
pika {'weights': [2.75]} UnsupportedAMQPFieldException([...], 2.75)
pika {'weight': Decimal('2.75')} sent
EXPECTED
venv/bin/python >seen <<'PYTHON'
from decimal import Decimal
import amqp.serialization
import pika
import pika.exceptions
table = amqp.serialization.dumps('F', ({'weight': 2.75},))
print('py-amqp', amqp.serialization.loads('F', table, 0)[0][0])
for headers in ({'weight': 2.75}, {'weights': [2.75]}, {'weight': Decimal('2.75')}):
    try:
        pika.BasicProperties(headers=headers).encode()
        print('pika', headers, 'sent')
    except pika.exceptions.UnsupportedAMQPFieldException as error:
        print('pika', headers, f'{type(error).__name__}([...], {error.args[-1]!r})')
PYTHON
cat seen
diff expected seen
