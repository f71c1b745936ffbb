/* Sends a request at a constant rate and prints how long each reply took, in seconds, counted from
   the moment when the request was due. A request that is due while all connections wait leaves
   when the next reply has arrived.
   Usage: constant_rate PORT CONNECTIONS RATE SECONDS < REQUEST */
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

enum { MOST = 1024, BUFFER = 1 << 20 };

struct connection {
    int socket;
    double due; /* of the request that it waits for */
    size_t filled;
    char *buffer;
};

static struct connection connections[MOST], *idle[MOST];
static int n_idle;
static char request[BUFFER];

static void fail(const char *what) {
    perror(what);
    exit(1);
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Whether the buffer holds a whole reply; ends the program if its status is not 200. */
static int is_complete(struct connection *c) {
    c->buffer[c->filled] = 0;
    char *end = strstr(c->buffer, "\r\n\r\n");
    if (!end) return 0;
    char *length = strcasestr(c->buffer, "\r\ncontent-length:");
    if (strncmp(c->buffer, "HTTP/1.1 200", 12) || !length || length > end) {
        fprintf(stderr, "%.*s\n", (int)(end - c->buffer), c->buffer);
        exit(1);
    }
    return c->filled >= (size_t)(end + 4 - c->buffer) + strtoul(length + 17, 0, 10);
}

static void receive(struct connection *c) {
    ssize_t n = recv(c->socket, c->buffer + c->filled, BUFFER - 1 - c->filled, 0);
    if (n <= 0) fail("recv");
    c->filled += (size_t)n;
    if (is_complete(c)) {
        printf("%.7f\n", now() - c->due);
        c->filled = 0;
        idle[n_idle++] = c;
    }
}

int main(int count, char **words) {
    if (count != 5) return 2;
    int n = atoi(words[2]), clock = timerfd_create(CLOCK_MONOTONIC, 0), queue = epoll_create1(0);
    double rate = atof(words[3]);
    long sent = 0, total = (long)(rate * atof(words[4]));
    size_t size = fread(request, 1, BUFFER, stdin);
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((unsigned short)atoi(words[1]))};
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = 0}, events[MOST];
    epoll_ctl(queue, EPOLL_CTL_ADD, clock, &event);
    for (int i = 0; i < n && i < MOST; i++) {
        struct connection *c = idle[n_idle++] = &connections[i];
        int one = 1;
        c->socket = socket(AF_INET, SOCK_STREAM, 0);
        c->buffer = malloc(BUFFER);
        if (connect(c->socket, (struct sockaddr *)&to, sizeof to)) fail("connect");
        setsockopt(c->socket, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        event.data.ptr = c;
        epoll_ctl(queue, EPOLL_CTL_ADD, c->socket, &event);
    }
    int all = n_idle;
    double started = now() + 0.05;
    while (sent < total || n_idle < all) {
        while (sent < total && n_idle && started + (double)sent / rate <= now()) {
            struct connection *c = idle[--n_idle];
            c->due = started + (double)sent++ / rate;
            for (size_t done = 0; done < size;) {
                ssize_t written = send(c->socket, request + done, size - done, 0);
                if (written <= 0) fail("send");
                done += (size_t)written;
            }
        }
        if (sent < total && n_idle) {
            double due = started + (double)sent / rate;
            struct itimerspec at = {.it_value = {(time_t)due, (long)((due - (time_t)due) * 1e9)}};
            timerfd_settime(clock, TFD_TIMER_ABSTIME, &at, 0);
        }
        int ready = epoll_wait(queue, events, MOST, 1000);
        for (int i = 0; i < ready; i++)
            if (events[i].data.ptr) receive(events[i].data.ptr);
            else if (read(clock, &(long){0}, sizeof(long)) < 0) fail("read");
    }
    return 0;
}
