"""Operations over all stores of a hub with several instances (PROTOCOL.md section 10).

| module          | subject                                                                             |
|-----------------|-------------------------------------------------------------------------------------|
| store_questions | questions to the instances that serve the other stores, and answers to theirs       |
| combination     | the answers of several stores combined into one                                     |
| fan_out         | the operations of the hub: which of them ask all stores, and how                    |
"""
