"""The documentation as a site: ``./run docs`` builds it into var/site.

| module    | what                                                                    |
|-----------|-------------------------------------------------------------------------|
| sources   | which documents outside of docs/ are pages, and at which addresses      |
| links     | links between files of the repository become links between pages        |
| markdown  | lists as GitHub reads them, for a parser that wants empty lines         |
| sequence  | blocks of text that become sequence diagrams                            |
| reference | pages made from the code                                                |
| hooks     | what mkdocs calls while it builds                                       |

mkdocs.yml has the settings and the order of the pages.
"""
