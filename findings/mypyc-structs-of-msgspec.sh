#!/bin/sh
# mypyc of mypy 2.4.1 compiles modules with structs of msgspec 0.22.0 that mypy --strict accepts, without a warning, and some of them cannot
# be imported: a field with msgspec.field(default_factory=list) is a TypeError, one of the type object a KeyError. Needs gcc.
# Expected: they work as interpreted, or the compiler says what it does not support, as it does for other base classes in C.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/python -m pip install --quiet --disable-pip-version-check mypy==2.4.1 setuptools==84.2.1 msgspec==0.22.0
cat >plain.py <<'PYTHON'
import msgspec


class Order(msgspec.Struct):
    lines: int = 0
PYTHON
sed 's/lines: int = 0/lines: list[int] = msgspec.field(default_factory=list)/' plain.py >factory.py
sed 's/lines: int = 0/note: object = None/' plain.py >anything.py
cat >expected <<'EXPECTED'
plain interpreted Order(lines=0)
plain mypy 0 compiler 0
plain compiled Order(lines=0)
factory interpreted Order(lines=[])
factory mypy 0 compiler 0
factory compiled TypeError: list object expected; got msgspec._core.Field
anything interpreted Order(note=None)
anything mypy 0 compiler 0
anything compiled KeyError: 'object'
EXPECTED
for name in plain factory anything; do
    program="import $name; print($name.Order())"
    echo "$name interpreted $(venv/bin/python -c "$program")"
    mypy=0 compiler=0
    venv/bin/mypy --strict "$name.py" >log 2>&1 || mypy=$?
    venv/bin/mypyc "$name.py" >>log 2>&1 || compiler=$?
    echo "$name mypy $mypy compiler $compiler"
    echo "$name compiled $(venv/bin/python -c "$program" 2>&1 | tail -n 1)"
done >seen
cat seen
cmp -s seen expected
