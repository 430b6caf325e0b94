"""Operations over all stores of a hub with several instances (PROTOCOL.md section 10).

| module          | subject                                                                             |
|-----------------|-------------------------------------------------------------------------------------|
| store_questions | questions between the instances that serve the stores, and their answers            |
| combination     | the answers of several stores combined into one                                     |
| fan_out         | the operations of the hub: which of them ask all stores, and how                    |
"""
