"""The demo: a hub and two institutions as processes on this machine, and documents sent between them.

| module         | contents                                                                  |
|----------------|---------------------------------------------------------------------------|
| __main__       | the command line                                                          |
| configuration  | the installation: names and settings of the nodes                         |
| scenario       | the steps                                                                 |
| cluster        | other steps: a hub of several instances, of which one is killed           |
| hubless        | other steps: institutions with a direct link and without a hub            |
| tracker        | the documents: files, states, counts at the end                           |
| display        | the printed lines                                                         |
| reconciliation | the last step: comparison of the ledgers                                  |
| past           | made-up figures of the week before, for the charts of a demo that stays   |

The folder ``documents`` has the files that are sent unless others are named.
"""
