/* Send or receive documents with rabbitmq-c (Debian: librabbitmq-dev): cc document.c -lrabbitmq -o document
 *   document send HOST PORT USER PASSWORD TARGET KEY < FILE
 *   document receive HOST PORT USER PASSWORD COUNT
 */
#include <amqp.h>
#include <amqp_tcp_socket.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BODY_MAX (16 << 20)

static void check(amqp_rpc_reply_t reply, const char *what) {
    if (reply.reply_type == AMQP_RESPONSE_NORMAL) return;
    if (reply.reply_type == AMQP_RESPONSE_SERVER_EXCEPTION && reply.reply.id == AMQP_CHANNEL_CLOSE_METHOD) {
        amqp_channel_close_t *close = reply.reply.decoded;
        fprintf(stderr, "%.*s\n", (int)close->reply_text.len, (char *)close->reply_text.bytes);
    }
    fprintf(stderr, "%s failed\n", what);
    exit(1);
}

static void add(amqp_table_entry_t *entry, const char *name, const char *value) {
    entry->key = amqp_cstring_bytes(name);
    entry->value.kind = AMQP_FIELD_KIND_UTF8;
    entry->value.value.bytes = amqp_cstring_bytes(value);
}

static void send_document(amqp_connection_state_t connection, const char *target, const char *key) {
    static char body[BODY_MAX];
    char app_key[256];
    amqp_table_entry_t entries[2];
    amqp_basic_properties_t properties = {0};
    amqp_frame_t frame;
    size_t length = fread(body, 1, sizeof body, stdin);

    snprintf(app_key, sizeof app_key, "trade/order//%s", key);
    add(&entries[0], "@AppKey", app_key);
    add(&entries[1], "@Token", key); /* makes a repetition harmless */
    properties._flags = AMQP_BASIC_HEADERS_FLAG | AMQP_BASIC_CONTENT_TYPE_FLAG;
    properties.content_type = amqp_cstring_bytes("application/xml");
    properties.headers.num_entries = 2;
    properties.headers.entries = entries;
    amqp_confirm_select(connection, 1);
    check(amqp_get_rpc_reply(connection), "confirm.select");
    amqp_bytes_t content = {length, body};
    if (amqp_basic_publish(connection, 1, amqp_cstring_bytes("semq"), amqp_cstring_bytes(target), 0, 0, &properties, content))
        exit(1);
    if (amqp_simple_wait_frame(connection, &frame) || frame.frame_type != AMQP_FRAME_METHOD ||
        frame.payload.method.id != AMQP_BASIC_ACK_METHOD) {
        fprintf(stderr, "the node did not accept the document\n");
        exit(1);
    }
    puts("accepted");
}

static void print_header(const amqp_table_t *headers, const char *name) {
    for (int i = 0; i < headers->num_entries; i++) {
        amqp_bytes_t key = headers->entries[i].key, value = headers->entries[i].value.value.bytes;
        if (key.len == strlen(name) && !memcmp(key.bytes, name, key.len)) printf(" %.*s", (int)value.len, (char *)value.bytes);
    }
}

static void receive_documents(amqp_connection_state_t connection, int count) {
    amqp_basic_qos(connection, 1, 0, 16, 0);
    amqp_basic_consume(connection, 1, amqp_cstring_bytes("semq.inbox"), amqp_empty_bytes, 0, 0, 0, amqp_empty_table);
    check(amqp_get_rpc_reply(connection), "basic.consume");
    while (count-- > 0) {
        amqp_envelope_t document;
        amqp_maybe_release_buffers(connection);
        check(amqp_consume_message(connection, &document, NULL, 0), "basic.deliver");
        amqp_basic_properties_t *properties = &document.message.properties;
        printf("%.*s", (int)properties->message_id.len, (char *)properties->message_id.bytes);
        print_header(&properties->headers, "@Source");
        print_header(&properties->headers, "@AppKey");
        printf(" %zu\n", document.message.body.len);
        amqp_basic_ack(connection, 1, document.delivery_tag, 0); /* only when the document is stored safely */
        amqp_destroy_envelope(&document);
    }
}

int main(int argc, char **argv) {
    if (argc < 7) return 2;
    amqp_connection_state_t connection = amqp_new_connection();
    if (amqp_socket_open(amqp_tcp_socket_new(connection), argv[2], atoi(argv[3]))) {
        fprintf(stderr, "no connection to %s:%s\n", argv[2], argv[3]);
        return 1;
    }
    check(amqp_login(connection, "/", 0, 131072, 30, AMQP_SASL_METHOD_PLAIN, argv[4], argv[5]), "login");
    amqp_channel_open(connection, 1);
    check(amqp_get_rpc_reply(connection), "channel.open");
    if (!strcmp(argv[1], "send"))
        send_document(connection, argv[6], argv[7]);
    else
        receive_documents(connection, atoi(argv[6]));
    check(amqp_connection_close(connection, AMQP_REPLY_SUCCESS), "connection.close");
    amqp_destroy_connection(connection);
    return 0;
}
