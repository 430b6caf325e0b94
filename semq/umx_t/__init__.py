"""UMX-T, the transport layer of UMX: identities, attributes, records and the status grids. Floor 0: pure values only.

Start with ``grids``, the rules for each event of a message.

=====================  =================================================================================================
``grids``, ``grid``    the status grids of PROTOCOL.md section 5; their reader
``status``, ``word``   statuses as stored; base classes of enums
``address``            addresses of nodes, users and groups
``locator``            LK0, LK1, positions in a stream; ``short_name``: LK0 in a form that people can type
``floor``              the lowest unsettled position of a stream
``app_key``            the name that an application gives a document
``envelope``           a message with its attributes; packets of records
``attributes``         the table of all attributes; ``attribute_values``: readers of their values
``headers``            attributes as AMQP headers and properties; ``packed_envelope``: attributes in one field
``records``            receipts (810), inquiries (809), records of presence and of datagram channels
``agreement``          terms for the documents that one institution may send to another
``pieces``             documents in pieces and their manifests
``retry``              intervals between inquiries and between retries
``version``            versions of the protocol
``errors``             SEMQ-1100 to SEMQ-1199
=====================  =================================================================================================
"""
