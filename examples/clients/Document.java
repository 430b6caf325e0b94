// Send or receive documents with RabbitMQ's client (Debian: librabbitmq-client-java).
//   java -cp amqp-client.jar:slf4j-api.jar Document.java send URL TARGET KEY < FILE
//   java -cp amqp-client.jar:slf4j-api.jar Document.java receive URL COUNT
import com.rabbitmq.client.AMQP;
import com.rabbitmq.client.Channel;
import com.rabbitmq.client.Connection;
import com.rabbitmq.client.ConnectionFactory;
import com.rabbitmq.client.Delivery;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;

public class Document {
    public static void main(String[] arguments) throws Exception {
        ConnectionFactory factory = new ConnectionFactory();
        factory.setUri(arguments[1]);
        try (Connection connection = factory.newConnection()) {
            Channel channel = connection.createChannel();
            if (arguments[0].equals("send")) {
                send(channel, arguments[2], arguments[3]);
            } else {
                receive(channel, Integer.parseInt(arguments[2]));
            }
        }
    }

    static void send(Channel channel, String target, String key) throws Exception {
        // The token makes a repetition harmless.
        Map<String, Object> headers = Map.of("@AppKey", "trade/order//" + key, "@Token", key);
        AMQP.BasicProperties properties =
                new AMQP.BasicProperties.Builder().contentType("application/xml").headers(headers).build();
        channel.confirmSelect();
        channel.basicPublish("semq", target, properties, System.in.readAllBytes());
        channel.waitForConfirmsOrDie(30_000); // throws if the node did not accept the document
        System.out.println("accepted");
    }

    static void receive(Channel channel, int count) throws Exception {
        BlockingQueue<Delivery> waiting = new LinkedBlockingQueue<>();
        channel.basicQos(16);
        channel.basicConsume("semq.inbox", false, (tag, document) -> waiting.add(document), tag -> {});
        for (; count > 0; count--) {
            Delivery document = waiting.take();
            Map<String, Object> headers = document.getProperties().getHeaders();
            System.out.println(String.join(" ", document.getProperties().getMessageId(), headers.get("@Source").toString(),
                    headers.get("@AppKey").toString(), String.valueOf(document.getBody().length)));
            channel.basicAck(document.getEnvelope().getDeliveryTag(), false); // only when it is stored safely
        }
    }
}
