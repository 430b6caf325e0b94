// amqp091-go: arguments, input and output as in python.py, without the name of the client.
package main

import (
	"bufio"
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/big"
	"os"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	amqp "github.com/rabbitmq/amqp091-go"
)

func built(kind string, value interface{}) interface{} {
	text, _ := value.(string)
	switch kind {
	case "int":
		number, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			panic("range")
		}
		return number
	case "float":
		number, _ := strconv.ParseFloat(text, 64)
		return number
	case "bytes":
		octets, _ := hex.DecodeString(text)
		return octets
	case "octets":
		octets, _ := hex.DecodeString(text)
		return string(octets)
	case "date":
		seconds, _ := strconv.ParseInt(text, 10, 64)
		return time.Unix(seconds, 0)
	case "decimal":
		at := strings.Index(text, ".")
		number, _ := strconv.ParseInt(strings.Replace(text, ".", "", 1), 10, 32)
		return amqp.Decimal{Scale: uint8(len(text) - at - 1), Value: int32(number)}
	case "array":
		list := []interface{}{}
		for _, each := range value.([]interface{}) {
			pair := append(each.([]interface{}), nil)
			list = append(list, built(pair[0].(string), pair[1]))
		}
		return list
	case "table":
		table := amqp.Table{}
		for name, each := range value.(map[string]interface{}) {
			pair := append(each.([]interface{}), nil)
			table[name] = built(pair[0].(string), pair[1])
		}
		return table
	}
	return value
}

func shown(value interface{}) []interface{} {
	switch v := value.(type) {
	case nil:
		return []interface{}{"null"}
	case bool:
		return []interface{}{"bool", fmt.Sprint(v)}
	case int, int8, uint8, int16, uint16, int32, uint32, int64, uint64:
		return []interface{}{"int", fmt.Sprint(v)}
	case float32:
		return []interface{}{"float", strconv.FormatFloat(float64(v), 'g', -1, 32)}
	case float64:
		return []interface{}{"float", strconv.FormatFloat(v, 'g', -1, 64)}
	case string:
		if utf8.ValidString(v) {
			return []interface{}{"text", v}
		}
		return []interface{}{"bytes", hex.EncodeToString([]byte(v))}
	case []byte:
		return []interface{}{"bytes", hex.EncodeToString(v)}
	case time.Time:
		return []interface{}{"date", fmt.Sprint(v.Unix())}
	case amqp.Decimal:
		scale := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(v.Scale)), nil)
		return []interface{}{"decimal", new(big.Rat).SetFrac(big.NewInt(int64(v.Value)), scale).FloatString(int(v.Scale))}
	case []interface{}:
		list := []interface{}{}
		for _, each := range v {
			list = append(list, shown(each))
		}
		return []interface{}{"array", list}
	case amqp.Table:
		table := map[string]interface{}{}
		for name, each := range v {
			table[name] = shown(each)
		}
		return []interface{}{"table", table}
	}
	return []interface{}{"other", fmt.Sprintf("%T", value)}
}

// Properties of a message; a panic if the client has no such property.
func messageOf(body, kind string, value interface{}) amqp.Publishing {
	message := amqp.Publishing{Body: []byte(body)}
	if kind != "property" {
		message.Headers = amqp.Table{"v": built(kind, value)}
		return message
	}
	typed := value.([]interface{})
	given := built(typed[1].(string), typed[2])
	text, _ := given.(string)
	number, _ := given.(int64)
	switch typed[0] {
	case "content_type":
		message.ContentType = text
	case "content_encoding":
		message.ContentEncoding = text
	case "delivery_mode":
		message.DeliveryMode = uint8(number)
	case "priority":
		message.Priority = uint8(number)
	case "correlation_id":
		message.CorrelationId = text
	case "reply_to":
		message.ReplyTo = text
	case "expiration":
		message.Expiration = text
	case "message_id":
		message.MessageId = text
	case "timestamp":
		message.Timestamp = given.(time.Time)
	case "type":
		message.Type = text
	case "user_id":
		message.UserId = text
	case "app_id":
		message.AppId = text
	default:
		panic("no such property")
	}
	return message
}

func propertiesOf(m amqp.Delivery) map[string]interface{} {
	return map[string]interface{}{
		"content_type": m.ContentType, "content_encoding": m.ContentEncoding, "delivery_mode": m.DeliveryMode,
		"priority": m.Priority, "correlation_id": m.CorrelationId, "reply_to": m.ReplyTo, "expiration": m.Expiration,
		"message_id": m.MessageId, "timestamp": m.Timestamp, "type": m.Type, "user_id": m.UserId, "app_id": m.AppId,
	}
}

func say(name string, what interface{}) {
	line, _ := json.Marshal([]interface{}{name, what})
	fmt.Println(string(line))
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(3)
	}
}

var confirms chan amqp.Confirmation

func send(channel *amqp.Channel, place, key, name, kind string, value interface{}) (fault string) {
	defer func() {
		if recover() != nil {
			fault = "cannot"
		}
	}()
	message := messageOf(name, kind, value)
	if err := channel.PublishWithContext(context.Background(), place, key, false, false, message); err != nil {
		return "error"
	}
	if confirm, open := <-confirms; !open || !confirm.Ack {
		return "refused"
	}
	return ""
}

func main() {
	mode, url, place := os.Args[1], os.Args[2], os.Args[3]
	connection, err := amqp.Dial(url)
	check(err)
	channel, err := connection.Channel()
	check(err)
	if mode == "send" {
		check(channel.Confirm(false))
		confirms = channel.NotifyPublish(make(chan amqp.Confirmation, 1))
		scanner := bufio.NewScanner(os.Stdin)
		for scanner.Scan() {
			var line []interface{}
			check(json.Unmarshal(scanner.Bytes(), &line))
			fault := send(channel, place, os.Args[4], line[0].(string), line[1].(string), line[2])
			say(line[0].(string), fault)
			if fault != "" {
				os.Exit(3)
			}
		}
	} else {
		for {
			message, ok, err := channel.Get(place, true)
			check(err)
			if !ok {
				break
			}
			name, value := string(message.Body), message.Headers["v"]
			if mode != "receive" {
				value = propertiesOf(message)[name]
			}
			say(name, shown(value))
		}
	}
	connection.Close()
}
