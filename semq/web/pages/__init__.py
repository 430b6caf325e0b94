"""Pages: visits, templates and languages of all pages, and the pages of users and tokens.

| module                      | subject                                                               |
|-----------------------------|-----------------------------------------------------------------------|
| visit                       | one request for a page; the rows of routes                            |
| templates, languages        | rendering; translations                                               |
| error_words, error_texts    | errors in the language of a page                                      |
| account_pages, token_pages  | users and their passwords; tokens of programs                         |
"""
