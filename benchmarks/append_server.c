/* The least that a server of one thread does for a produce request, in C: for benchmarks/io_uring.py.
 *
 * append_server epoll|io_uring ANSWER_BYTES FILE: prints its port, reads frames (four bytes of length,
 * then as many bytes), appends each to FILE, answers with ANSWER_BYTES bytes, and serves until standard
 * input ends. No protocol, no checksum, no broker.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <fcntl.h>
#include <liburing.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum { BUFFER_BYTES = 2 << 20, RECYCLE_BYTES = 64 << 20, ANSWERS_MAX = 4096, EVENTS_MAX = 256 };
enum kind { ACCEPTED, INPUT_ENDED, RECEIVED, WRITTEN_OR_SENT };

/* One connection: the bytes received so far, and how many of them are being answered. */
struct peer {
    int socket;
    char *received;
    size_t end;
    char *answers;
    size_t answered_end;
    int operations; /* submitted to io_uring and not completed */
};

static struct peer *peers[65536];
static int log_file;
static size_t written_bytes, answer_bytes;

static struct peer *add_peer(int socket) {
    int on = 1;
    setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    struct peer *peer = calloc(1, sizeof *peer);
    peer->socket = socket;
    peer->received = malloc(BUFFER_BYTES);
    peer->answers = calloc(ANSWERS_MAX, answer_bytes + 4);
    for (size_t i = 0; i < ANSWERS_MAX; i++) {
        uint32_t length = htonl(answer_bytes);
        memcpy(peer->answers + i * (answer_bytes + 4), &length, 4);
    }
    return peers[socket] = peer;
}

/* Length of the whole frame at ``start``, or 0 while it has not arrived. */
static size_t frame_at(const struct peer *peer, size_t start) {
    uint32_t length;
    if (peer->end - start < 4) return 0;
    memcpy(&length, peer->received + start, 4);
    size_t whole = 4 + (size_t)ntohl(length);
    return peer->end - start < whole ? 0 : whole;
}

/* Pages of the page cache are used again: a file that only grows measures the memory of the machine. */
static void count_written(size_t bytes) {
    written_bytes += bytes;
    if (written_bytes > RECYCLE_BYTES) {
        if (ftruncate(log_file, 0)) exit(1);
        written_bytes = 0;
    }
}

static void drop_answered(struct peer *peer) {
    memmove(peer->received, peer->received + peer->answered_end, peer->end - peer->answered_end);
    peer->end -= peer->answered_end;
    peer->answered_end = 0;
}

static void serve_with_epoll(int listener) {
    int poller = epoll_create1(0);
    struct epoll_event wanted = {.events = EPOLLIN}, events[EVENTS_MAX];
    wanted.data.fd = listener;
    epoll_ctl(poller, EPOLL_CTL_ADD, listener, &wanted);
    wanted.data.fd = STDIN_FILENO;
    epoll_ctl(poller, EPOLL_CTL_ADD, STDIN_FILENO, &wanted);
    for (;;) {
        int count = epoll_wait(poller, events, EVENTS_MAX, -1);
        for (int i = 0; i < count; i++) {
            int ready = events[i].data.fd;
            if (ready == STDIN_FILENO) return;
            if (ready == listener) {
                wanted.data.fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK);
                add_peer(wanted.data.fd);
                epoll_ctl(poller, EPOLL_CTL_ADD, wanted.data.fd, &wanted);
                continue;
            }
            struct peer *peer = peers[ready];
            ssize_t got = recv(ready, peer->received + peer->end, BUFFER_BYTES - peer->end, 0);
            if (got <= 0) {
                close(ready);
                continue;
            }
            peer->end += got;
            size_t answers = 0, frame;
            while ((frame = frame_at(peer, peer->answered_end))) {
                if (write(log_file, peer->received + peer->answered_end, frame) < 0) exit(1);
                count_written(frame);
                peer->answered_end += frame;
                answers++;
            }
            if (answers) send(ready, peer->answers, answers * (answer_bytes + 4), 0);
            drop_answered(peer);
        }
    }
}

static struct io_uring ring;

static struct io_uring_sqe *entry(void) {
    struct io_uring_sqe *sqe = io_uring_get_sqe(&ring);
    if (!sqe) {
        io_uring_submit(&ring);
        sqe = io_uring_get_sqe(&ring);
    }
    return sqe;
}

/* Says how the completion of a prepared entry will be known. */
static void label(struct io_uring_sqe *sqe, enum kind kind, int socket) {
    io_uring_sqe_set_data64(sqe, (uint64_t)socket << 8 | kind);
}

static void submit_receive(struct peer *peer) {
    struct io_uring_sqe *sqe = entry();
    io_uring_prep_recv(sqe, peer->socket, peer->received + peer->end, BUFFER_BYTES - peer->end, 0);
    label(sqe, RECEIVED, peer->socket);
}

static void submit_accept(int listener) {
    struct io_uring_sqe *sqe = entry();
    io_uring_prep_accept(sqe, listener, NULL, NULL, 0);
    label(sqe, ACCEPTED, 0);
}

/* Linked: the answer leaves after the frames before it are written. */
static void submit_appends_and_answer(struct peer *peer) {
    size_t answers = 0, frame;
    while ((frame = frame_at(peer, peer->answered_end))) {
        struct io_uring_sqe *sqe = entry();
        io_uring_prep_write(sqe, log_file, peer->received + peer->answered_end, frame, written_bytes);
        sqe->flags |= IOSQE_IO_LINK;
        label(sqe, WRITTEN_OR_SENT, peer->socket);
        count_written(frame);
        peer->answered_end += frame;
        peer->operations++;
        answers++;
    }
    if (!answers) {
        submit_receive(peer);
        return;
    }
    struct io_uring_sqe *sqe = entry();
    io_uring_prep_send(sqe, peer->socket, peer->answers, answers * (answer_bytes + 4), 0);
    label(sqe, WRITTEN_OR_SENT, peer->socket);
    peer->operations++;
}

static void completed(int listener, enum kind kind, int socket, int result) {
    if (kind == ACCEPTED) {
        submit_receive(add_peer(result));
        submit_accept(listener);
        return;
    }
    struct peer *peer = peers[socket];
    if (kind == RECEIVED && result <= 0) {
        close(socket);
    } else if (kind == RECEIVED) {
        peer->end += result;
        submit_appends_and_answer(peer);
    } else if (--peer->operations == 0) {
        drop_answered(peer);
        submit_receive(peer);
    }
}

static void serve_with_io_uring(int listener) {
    struct io_uring_params parameters = {
        .flags = IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN};
    if (io_uring_queue_init_params(4096, &ring, &parameters)) {
        fputs("this kernel refuses io_uring\n", stderr);
        exit(1);
    }
    submit_accept(listener);
    struct io_uring_sqe *input = entry();
    io_uring_prep_poll_add(input, STDIN_FILENO, POLLIN);
    label(input, INPUT_ENDED, 0);
    for (;;) {
        io_uring_submit_and_wait(&ring, 1);
        struct io_uring_cqe *cqe;
        unsigned head, count = 0;
        io_uring_for_each_cqe(&ring, head, cqe) {
            enum kind kind = cqe->user_data & 255;
            if (kind == INPUT_ENDED) return;
            completed(listener, kind, cqe->user_data >> 8, cqe->res);
            count++;
        }
        io_uring_cq_advance(&ring, count);
    }
}

int main(int count, char **arguments) {
    if (count != 4) return 2;
    answer_bytes = atoi(arguments[2]);
    log_file = open(arguments[3], O_RDWR | O_CREAT | O_TRUNC, 0600);
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    if (bind(listener, (void *)&address, size) || listen(listener, 128)) return 1;
    getsockname(listener, (void *)&address, &size);
    printf("%d\n", ntohs(address.sin_port));
    fflush(stdout);
    if (arguments[1][0] == 'e')
        serve_with_epoll(listener);
    else
        serve_with_io_uring(listener);
    return 0;
}
