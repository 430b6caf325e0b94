"""The reference, made from the tables that the product itself uses. Nothing of it is committed.

| module        | made from                                                       |
|---------------|-----------------------------------------------------------------|
| configuration | the sections in semq.config, and what a reload applies          |
| commands      | the program ``semq``                                            |
| http          | the rows of endpoints and operations                            |
| attributes    | semq.umx_t.attributes                                           |
| errors        | the classes of errors                                           |
| metrics       | METRICS and COUNTERS                                            |
| log_events    | the calls of loggers in the sources, and log_meanings           |
| log_meanings  | a table of what each event of the log means                     |
| sql           | the functions and views in semq/store/sql                       |
| pages         | the table of these pages                                        |
| cells         | texts in cells of tables                                        |
"""
