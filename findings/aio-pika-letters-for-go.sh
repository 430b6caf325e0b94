#!/bin/sh
# aio-pika 10.2.1 (pamqp 4.0.1) chooses the shortest integer type: 40000 is letter u, 3000000000 letter i. amqp091-go 1.5.0 of Debian 12
# knows neither and cannot read the table; it reads 127 (b), 255 (s) and 2^40 (l). Expected: whether a number can be read does not
# depend on its size. (The table is read by the function of amqp091-go that reads headers; a file that calls it is added.)
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/python -m pip install --quiet --disable-pip-version-check pamqp==4.0.1
apt-get download -qq golang-github-rabbitmq-amqp091-go-dev=1.5.0-2
dpkg -x golang-github-rabbitmq-amqp091-go-dev_*.deb .
source=usr/share/gocode/src/github.com/rabbitmq/amqp091-go
cat >expected <<'EXPECTED'
127 b 127
255 s 255
40000 u Exception (502) Reason: "invalid field or value inside of a frame"
100000 I 100000
3000000000 i Exception (502) Reason: "invalid field or value inside of a frame"
1099511627776 l 1099511627776
EXPECTED
venv/bin/python >tables <<'PYTHON'
import pamqp.encode
for number in (127, 255, 40_000, 100_000, 3_000_000_000, 2**40):
    table = pamqp.encode.field_table({'n': number})
    print(number, table[6:7].decode(), table.hex())
PYTHON
cat >$source/exported.go <<'GO'
package amqp091

import "io"

func ReadTable(r io.Reader) (Table, error) { return readTable(r) }
GO
cat >main.go <<'GO'
package main

import (
	"bytes"
	"encoding/hex"
	"fmt"
	amqp "github.com/rabbitmq/amqp091-go"
)

func main() {
	var number, letter, text string
	for {
		if _, err := fmt.Scan(&number, &letter, &text); err != nil {
			return
		}
		octets, _ := hex.DecodeString(text)
		table, err := amqp.ReadTable(bytes.NewReader(octets))
		if err != nil {
			fmt.Println(number, letter, err)
		} else {
			fmt.Println(number, letter, table["n"])
		}
	}
}
GO
GO111MODULE=off GOPATH="$folder/usr/share/gocode" GOCACHE="$folder/cache" go build -o main main.go
./main <tables >seen
cat seen
diff expected seen
