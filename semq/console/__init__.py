"""The console: pages for the people who run a node, in a browser. Mounted by ``semq.web``, which has the process.

| module        | what it has                                                                             |
|---------------|-----------------------------------------------------------------------------------------|
| routes        | the rows of all pages and forms                                                         |
| pages         | the handlers, one module per subject                                                    |
| display       | rendering with what all templates use: words, sizes, times, links                       |
| words         | statuses, events, causes and checks in words that are translated                        |
| timeline      | the trace of a message as a time line over sender, hub and receiver                     |
| bulk          | acts on many messages: a frozen set, a reason, progress                                 |
| runs          | the run folders of the reconciliation                                                   |
| live          | server-sent events that make a page renew itself                                        |

Pages are complete HTML without scripts; ``static/console.js`` renews parts of them and adds shortcuts. A page reads
through operations of the node and never changes a state; acts are posted, ask for a reason, and lead to a page that
says what happened. Texts of templates are English msgids of ``translations/*.po``.
"""
