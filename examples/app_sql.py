"""Sending inside the application's own transaction: the document travels if the transaction commits, and only then.

Run it beside the three nodes of examples/config, with the URL of the database of 10008:

    ./run python examples/app_sql.py "$(./run semq db url --config examples/config/a.toml)"
"""

import sys

from sqlalchemy import create_engine, text

from semq.app import done, receive, send

if len(sys.argv) != 2:
    sys.exit("Say which database: the URL that `semq db url` prints.")
engine = create_engine(sys.argv[1])
with engine.begin() as connection:
    connection.execute(text("CREATE TABLE IF NOT EXISTS example_orders (number text, goods text)"))
    connection.execute(text("INSERT INTO example_orders VALUES ('S0003', 'twelve ball bearings')"))
    send(connection, "56001", b"<Order>S0003</Order>", app_key="trade/order/standard/S0003")

with engine.begin() as connection:
    for number, document in receive(connection, at_most=10):
        print(document.lk0, document.app_key, document.payload)
        done(connection, number)  # committed together with whatever this transaction does with the document
