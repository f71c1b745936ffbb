/* The least that one thread can do: read a request, send a constant reply of as many bytes as the
   path says. What it costs is what sockets cost. Usage: constant PORT */
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum { MOST = 1024, BUFFER = 1 << 23 };

struct connection {
    char *buffer;
    size_t filled;
};

static struct connection connections[MOST];
static char reply[1 << 22];

/* Bytes of the complete request at the start of the buffer, or 0. */
static size_t request_bytes(struct connection *c) {
    c->buffer[c->filled] = 0;
    char *end = strstr(c->buffer, "\r\n\r\n");
    if (!end) return 0;
    char *length = strcasestr(c->buffer, "\r\ncontent-length:");
    size_t body = length && length < end ? strtoul(length + 17, 0, 10) : 0;
    size_t whole = (size_t)(end + 4 - c->buffer) + body;
    return whole <= c->filled ? whole : 0;
}

static void answer(int fd, struct connection *c) {
    char *path = memchr(c->buffer, '/', c->filled);
    size_t body = path ? strtoul(path + 1, 0, 10) : 0;
    int head = sprintf(reply,
                       "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n"
                       "content-length: %zu\r\n\r\n", body);
    if (head + body > sizeof reply) exit(2);
    memset(reply + head, 'x', body);
    for (size_t sent = 0; sent < head + body;) {
        ssize_t n = write(fd, reply + sent, head + body - sent);
        if (n <= 0) return;
        sent += (size_t)n;
    }
}

int main(int argc, char **argv) {
    if (argc != 2) return 1;
    int listener = socket(AF_INET, SOCK_STREAM, 0), on = 1, events = epoll_create1(0);
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((unsigned short)atoi(argv[1])),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(listener, (struct sockaddr *)&address, sizeof address) || listen(listener, 512))
        return 1;
    struct epoll_event event = {.events = EPOLLIN, .data.fd = listener}, ready[64];
    epoll_ctl(events, EPOLL_CTL_ADD, listener, &event);
    for (;;) {
        int n = epoll_wait(events, ready, 64, -1);
        for (int i = 0; i < n; i++) {
            int fd = ready[i].data.fd;
            if (fd == listener) {
                int new = accept(listener, 0, 0);
                if (new < 0 || new >= MOST) return 2;
                setsockopt(new, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
                if (!connections[new].buffer) connections[new].buffer = malloc(BUFFER + 1);
                connections[new].filled = 0;
                event.data.fd = new;
                epoll_ctl(events, EPOLL_CTL_ADD, new, &event);
                continue;
            }
            struct connection *c = &connections[fd];
            ssize_t got = read(fd, c->buffer + c->filled, BUFFER - c->filled);
            if (got <= 0) {
                close(fd);
                continue;
            }
            c->filled += (size_t)got;
            for (size_t whole; (whole = request_bytes(c)) > 0;) {
                answer(fd, c);
                c->filled -= whole;
                memmove(c->buffer, c->buffer + whole, c->filled);
            }
        }
    }
}
