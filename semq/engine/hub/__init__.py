"""The hub's side of the protocol (PROTOCOL.md section 5.2).

| module        | subject                                                           |
|---------------|-------------------------------------------------------------------|
| speakers      | what a node may say of whom: every packet passes here             |
| forwarding    | messages for present targets (H1-H4, H14, H15)                    |
| forward_notes | Ack-Fwd, held back for a moment (H3)                              |
| custody       | stored copies for absent targets (H4-H13)                         |
| copies        | Acks, answers and inquiries about copies (H6-H12)                 |
| deeds         | the row of a copy: the one door for all news of it, and its deeds |
| refusals      | what an operator of the hub does about copies (H16-H18)           |
| stores        | the hub's own store, and those that are lost for good             |
"""
