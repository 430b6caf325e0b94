"""Institution 10008 publishes a document with pika; the confirm means that it is committed in the node's database.

Run it beside the three nodes of examples/config: ./run python examples/pika_send.py
"""

import sys

import pika

URL = sys.argv[1] if len(sys.argv) > 1 else "amqp://app:example-app@127.0.0.1:17671"

connection = pika.BlockingConnection(pika.URLParameters(URL))
channel = connection.channel()
channel.confirm_delivery()  # from now on basic_publish returns when the document is committed, or raises
channel.basic_publish(
    exchange="semq",
    routing_key="56001",
    body=b"<Order>S0001</Order>",
    properties=pika.BasicProperties(content_type="application/xml", headers={"@AppKey": "trade/order/standard/S0001"}),
)
connection.close()
print("accepted")
