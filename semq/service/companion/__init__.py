"""Programs that a node keeps running beside itself: folders, webhooks, the web process.

| module         | subject                                                                     |
|----------------|-----------------------------------------------------------------------------|
| program        | the node's side: start, restart and stop of the program                     |
| process        | the program's side: its configuration, its connection to the node, its end  |
| sections       | the sections of a program ([[folders]], [[webhooks]]), each run by itself   |
| section_states | failing sections: the program's reports, and what its node keeps of them    |
"""
