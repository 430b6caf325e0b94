// Send or receive documents with amqp091-go.
//
//	document send URL TARGET KEY < FILE
//	document receive URL COUNT
package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"os"
	"strconv"

	amqp "github.com/rabbitmq/amqp091-go"
)

func main() {
	connection, err := amqp.Dial(os.Args[2])
	check(err)
	defer connection.Close()
	channel, err := connection.Channel()
	check(err)
	if os.Args[1] == "send" {
		send(channel, os.Args[3], os.Args[4])
	} else {
		receive(channel, os.Args[3])
	}
}

func send(channel *amqp.Channel, target, key string) {
	body, err := io.ReadAll(os.Stdin)
	check(err)
	check(channel.Confirm(false))
	confirmed := channel.NotifyPublish(make(chan amqp.Confirmation, 1))
	// The token makes a repetition harmless.
	headers := amqp.Table{"@AppKey": "trade/order//" + key, "@Token": key}
	check(channel.PublishWithContext(context.Background(), "semq", target, false, false,
		amqp.Publishing{ContentType: "application/xml", Headers: headers, Body: body}))
	if answer, open := <-confirmed; !open || !answer.Ack {
		log.Fatal("the node did not accept the document")
	}
	fmt.Println("accepted")
}

func receive(channel *amqp.Channel, count string) {
	wanted, err := strconv.Atoi(count)
	check(err)
	check(channel.Qos(16, 0, false))
	documents, err := channel.Consume("semq.inbox", "", false, false, false, false, nil)
	check(err)
	for ; wanted > 0; wanted-- {
		document, open := <-documents
		if !open {
			log.Fatal("the connection has ended")
		}
		fmt.Println(document.MessageId, document.Headers["@Source"], document.Headers["@AppKey"], len(document.Body))
		check(document.Ack(false)) // only when the document is stored safely
	}
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
