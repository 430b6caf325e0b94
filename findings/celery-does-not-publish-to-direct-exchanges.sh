#!/bin/sh
# Celery 5.7.0: a task for a queue whose exchange is of type direct is not published to this exchange, but to the default exchange, with
# the name of the queue as routing key. Another queue that is bound to the exchange with the same key (an audit, a second application)
# gets nothing, and so does an exchange of another program. Topic exchanges are used. Expected: the exchange and the routing key of
# the queue, as kombu 5.7.0, on which Celery is built, publishes.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/python -m pip install --quiet --disable-pip-version-check celery==5.7.0 kombu==5.7.0
cat >expected <<'EXPECTED'
Celery direct work 1 audit 0
Celery topic work 1 audit 1
kombu direct work 1 audit 1
kombu topic work 1 audit 1
EXPECTED
venv/bin/python >seen <<'PYTHON'
from celery import Celery
from kombu import Exchange, Queue


def counts(client, kind, publish):
    exchange = Exchange(f'{client}-{kind}', kind)
    queues = [Queue(f'{client}-{kind}-{name}', exchange, routing_key='order.new') for name in ('work', 'audit')]
    app = Celery('app', broker='memory://')
    app.conf.update(task_queues=queues, task_default_queue=queues[0].name)
    with app.connection() as connection:
        for queue in queues:
            queue(connection.default_channel).declare()
        publish(app, connection, queues[0])
        found = [queue(connection.default_channel).queue_declare(passive=True).message_count for queue in queues]
    print(client, kind, 'work', found[0], 'audit', found[1])


def by_celery(app, connection, queue):
    app.send_task('order', queue=queue.name)


def by_kombu(app, connection, queue):
    connection.Producer().publish('order', exchange=queue.exchange, routing_key=queue.routing_key)


for kind in ('direct', 'topic'):
    counts('Celery', kind, by_celery)
for kind in ('direct', 'topic'):
    counts('kombu', kind, by_kombu)
PYTHON
cat seen
diff expected seen
