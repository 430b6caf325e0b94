"""Folders, an interface for applications: files in a folder are sent, and received documents become files.

    ROOT/out/TARGET[/TYPE[/SUBTYPE]]/NAME     files of applications, to be sent
    ROOT/sent/DAY/...                         files that the node accepted; NAME.semq.json has locator and outcome
    ROOT/failed/...                           files that were refused or not delivered; NAME.semq.json has the reason
    ROOT/in/SOURCE[/TYPE[/SUBTYPE]]/NAME      received documents; NAME.semq.json has the attributes

With ``keep_sent = false``, files that the node accepted are deleted instead.

A local node starts this program (``python -m semq.folders``) if [[folders]] is configured. It uses the node over AMQP
(``semq.app``). Outside the folders it stores only the identities of the roots, in the data folder of the node.

| module        | subject                                                                      |
|---------------|------------------------------------------------------------------------------|
| layout        | the folders of one root, names of files, notes beside files                  |
| root_identity | the check that a root is the folder that was served before                   |
| token         | the token of a file, its day and its mark                                    |
| content       | the content of a file in ``out``, as bytes or in blocks                      |
| outgoing      | files in ``out``: sent once when they are complete, then moved or deleted    |
| incoming      | documents of an inbox: written as files, then acknowledged                   |
| outcomes      | outcomes of sent documents, from events                                      |
| process       | the process with all roots of one configuration                              |
| errors        | files that cannot be sent, roots that cannot be served                       |
"""
