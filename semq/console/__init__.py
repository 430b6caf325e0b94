"""The console: pages in a browser for the operators of a node. ``semq.web`` serves them.

| module        | subject                                                                                 |
|---------------|-----------------------------------------------------------------------------------------|
| routes        | the rows of all pages and forms                                                         |
| pages         | the handlers, one module per subject                                                    |
| display       | rendering; the functions of all templates for words, sizes, times and links             |
| charts        | charts of documents over time                                                           |
| words         | texts of nodes that are translated: statuses, events, causes, checks                    |
| details       | texts of nodes with values in them, in words: details of checks, terms, changes         |
| timeline      | the trace of a message as a time line over sender, hub and receiver                     |
| acts          | the acts on messages, with their commands                                               |
| bulk          | the run of an act on messages: a fixed selection, a reason, progress                    |
| runs          | the run folders of the reconciliation                                                   |
| live          | server-sent events after which a page refreshes itself                                  |

Pages work without scripts. A page reads by operations of the node, or from its database, and changes nothing. An act is
a form; most acts need a reason. The English texts of templates are the msgids of ``translations/*.po``.
"""
