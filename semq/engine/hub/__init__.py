"""The hub's side of the protocol (PROTOCOL.md section 5.2).

| module         | subject                                                        |
|----------------|----------------------------------------------------------------|
| speakers       | checks whether the sender of a packet may state its records    |
| forwarding     | messages for present targets (H1-H4, H14, H15)                 |
| custody        | stored copies for absent targets, and their rows               |
| deeds          | actions for the deeds of the hub's grid                        |
| copies         | Acks, answers and inquiries about copies (H6-H12, H17)         |
| copy_acts      | acts of an operator of the hub on copies (H16-H18)             |
| sessions       | nodes that are online                                          |
| stores         | the store of this instance, and the retired stores             |
| instances      | other instances of the hub: their stores and the nodes at them |
| fronts         | sessions of nodes at all instances                             |
| carrier        | messages between instances, and the port that sends them       |
| carried_link   | the link to a node that is present at another instance         |
| freshness      | which messages of the carrier are new, and which are repeated  |
| unserved_homes | documents whose home no instance serves                        |
"""
