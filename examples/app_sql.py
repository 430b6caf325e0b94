"""Sending and receiving inside the application's own transaction: the document is sent only if the transaction
commits. It receives what others have sent to this institution, so nothing at first.

Run it with the three nodes of examples/config, as a role with these rights only:

    ./run semq db grant example --send --receive --config examples/config/a.toml
    ./run python examples/app_sql.py "$(./run semq db url --role example --config examples/config/a.toml)"
"""

import sys
import time

from sqlalchemy import create_engine, text

from semq.app import done, receive, send, status

if len(sys.argv) != 2:
    sys.exit("Name the database: the URL that `semq db url --role ROLE` prints.")
engine = create_engine(sys.argv[1])
with engine.begin() as connection:
    connection.execute(text("CREATE TABLE IF NOT EXISTS example_orders (number text, goods text)"))
    connection.execute(text("INSERT INTO example_orders VALUES ('S0003', 'twelve ball bearings')"))
    number = send(connection, "56001", b"<Order>S0003</Order>", app_key="trade/order/standard/S0003")
print(f"order S0003 and its document (submission {number}) are committed")

state = None
for _ in range(50):  # the node sends the document by itself; this loop only shows how to follow it
    with engine.connect() as connection:
        state = status(connection, number)
    if state is not None and state.state not in ("SUBMITTED", "SS_INIT", "SS_SENT", "SS_ACK_FWD"):
        break
    time.sleep(0.1)
if state is not None:
    print(f"the document is {state.state} {state.reason}".rstrip(), f"as {state.lk0}" if state.lk0 else "")

with engine.begin() as connection:
    documents = list(receive(connection, at_most=10))
    for bref, document in documents:
        print("received", document.lk0, document.app_key, document.payload)
        done(connection, bref)  # committed together with the other changes of this transaction
print(f"{len(documents)} documents received")
