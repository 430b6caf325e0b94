"""Packages for strangers: wheel, sdist, archive for machines without a network, and what proves them.

| module     | contents                                                                     |
|------------|------------------------------------------------------------------------------|
| __main__   | ``./run release``: make a release, or only check what would be released      |
| packages   | wheel and sdist of the sources under version control, reproducible           |
| tour       | a program that tries an installed SEMQ by its commands alone                 |
| installs   | installation in empty environments and roots of Debian, each with a tour     |
| debian     | roots of releases of Debian, made by debootstrap                             |
| image      | the steps of the Containerfile in such roots                                 |
| inventory  | SBOM, licences and known vulnerabilities of all dependencies                 |
| checksums  | checksums, and their signature                                               |
| bundle     | ``./run bundle``: an archive that installs SEMQ without a network            |
"""
