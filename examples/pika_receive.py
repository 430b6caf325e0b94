"""An application of institution 56001 consumes documents with pika and acknowledges each when it is stored safely.

Run it beside the three nodes of examples/config: ./run python examples/pika_receive.py
"""

import sys

import pika

URL = sys.argv[1] if len(sys.argv) > 1 else "amqp://app:example-app@127.0.0.1:17672"

connection = pika.BlockingConnection(pika.URLParameters(URL))
channel = connection.channel()
channel.basic_qos(prefetch_count=16)
for method, properties, body in channel.consume("semq.inbox", inactivity_timeout=10):
    if method is None:
        break  # no document arrived for ten seconds
    print(properties.message_id, properties.headers["@Source"], properties.headers.get("@AppKey"), len(body))
    channel.basic_ack(method.delivery_tag)
connection.close()
