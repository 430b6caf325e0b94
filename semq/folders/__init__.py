"""Folders as an interface for applications: a file put into a folder is sent, a received document becomes a file.

    ROOT/out/TARGET[/TYPE[/SUBTYPE]]/NAME     put here by applications
    ROOT/sent/...                             accepted by the node; NAME.semq.json has the locator and the outcome
    ROOT/failed/...                           refused; NAME.semq.json has the reason and the remedy
    ROOT/in/SOURCE[/TYPE[/SUBTYPE]]/NAME      a received document; NAME.semq.json has its attributes

A local node starts this program (``python -m semq.folders``) beside itself where [[folders]] is configured. It is an
application like any other: it speaks AMQP to the node (``semq.app``) and keeps nothing outside the folders, so that a
crash at any moment loses nothing.

| module    | subject                                                                      |
|-----------|------------------------------------------------------------------------------|
| layout    | the folders of one root, the names in them, notes beside documents           |
| content   | the content of a file in ``out``: small as bytes, large in blocks              |
| outgoing  | files in ``out``: complete, sent once, moved                                 |
| incoming  | documents of an inbox: written, then acknowledged                            |
| outcomes  | how sent documents ended, from events                                        |
| process   | all roots of one configuration, until a signal                               |
"""
