"""Operations over all stores of a hub with several instances (PROTOCOL.md section 10).

| module      | subject                                                                             |
|-------------|-------------------------------------------------------------------------------------|
| asking      | questions to the instances that serve the other stores, and answers to theirs       |
| combining   | how the answers of several stores become one                                        |
| fan_out     | the operations of the hub: which of them ask all stores, and how                     |
"""
