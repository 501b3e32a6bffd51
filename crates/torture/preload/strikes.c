/*
 * Faults of the machine under one process, switched on and off while it runs. Loaded before a program (LD_PRELOAD).
 *
 *   TIDEGATE_TORTURE_DIR      the folder of its files, absolute
 *   TIDEGATE_TORTURE_STRIKES  a file with three 64-bit numbers that the rig writes at any time:
 *                             1 while files below the folder cannot grow (ENOSPC);
 *                             milliseconds that each write and sync of these files takes longer;
 *                             seconds that the wall clock is ahead (two's complement)
 *   TIDEGATE_TORTURE_SOURCE   the address that connections to 127.0.0.2 come from, so that the rig knows whose they are
 *
 * Room that the program gives back on a full disk is gone: another process fills the disk.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netinet/in.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

struct strikes { uint64_t full, slow_ms; int64_t clock_s; };

static const struct strikes none, *volatile page = &none;
static char dir[PATH_MAX];
static size_t dir_len;
static struct in_addr source;

#define NOW(field) __atomic_load_n(&page->field, __ATOMIC_RELAXED)
#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

__attribute__((constructor)) static void start(void) {
    const char *folder = getenv("TIDEGATE_TORTURE_DIR"), *path = getenv("TIDEGATE_TORTURE_STRIKES");
    const char *address = getenv("TIDEGATE_TORTURE_SOURCE");
    if (address) inet_pton(AF_INET, address, &source);
    if (!folder || !path) return;
    int fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0);
    void *shared = fd < 0 ? MAP_FAILED : mmap(NULL, sizeof none, PROT_READ, MAP_SHARED, fd, 0);
    /* A fault that is asked for and does not come would be a lie: stop here. */
    if (shared == MAP_FAILED || !realpath(folder, dir)) abort();
    syscall(SYS_close, fd);
    dir_len = strlen(dir);
    page = shared;
}

/* --- disk ------------------------------------------------------------------------------------------------------------- */

/* Whether a descriptor is of a regular file below the folder. */
static int is_ours(int fd, struct stat *status) {
    char link[64], path[PATH_MAX];
    if (fstat(fd, status) != 0 || !S_ISREG(status->st_mode)) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path - 1);
    return length > (ssize_t)dir_len && strncmp(path, dir, dir_len) == 0 && path[dir_len] == '/';
}

/* Takes the time of a slow disk. True with errno set when the disk is full and the file would end behind its present end. */
static int refused(int fd, off_t end) {
    struct stat status;
    uint64_t slow = NOW(slow_ms), full = NOW(full);
    if ((!slow && !full) || !is_ours(fd, &status)) return 0;
    struct timespec time = {(time_t)(slow / 1000), (long)(slow % 1000) * 1000000};
    if (slow) nanosleep(&time, NULL);
    if (!full || end <= status.st_size) return 0;
    errno = ENOSPC;
    return 1;
}

static off_t sum(const struct iovec *parts, int count) {
    off_t length = 0;
    for (int i = 0; i < count; i++) length += (off_t)parts[i].iov_len;
    return length;
}

/* Where a write at the position of the file begins. */
static off_t position(int fd) {
    struct stat status;
    if (!NOW(full)) return 0;
    if (fcntl(fd, F_GETFL) & O_APPEND) return fstat(fd, &status) == 0 ? status.st_size : 0;
    off_t at = lseek(fd, 0, SEEK_CUR);
    return at < 0 ? 0 : at;
}

ssize_t write(int fd, const void *bytes, size_t length) {
    if (refused(fd, position(fd) + (off_t)length)) return -1;
    return syscall(SYS_write, fd, bytes, length);
}
ssize_t writev(int fd, const struct iovec *parts, int count) {
    if (refused(fd, position(fd) + sum(parts, count))) return -1;
    return syscall(SYS_writev, fd, parts, count);
}
ssize_t pwrite64(int fd, const void *bytes, size_t length, off64_t at) {
    if (refused(fd, at + (off_t)length)) return -1;
    return syscall(SYS_pwrite64, fd, bytes, length, at);
}
ssize_t pwrite(int fd, const void *bytes, size_t length, off_t at) { return pwrite64(fd, bytes, length, at); }
ssize_t pwritev64(int fd, const struct iovec *parts, int count, off64_t at) {
    if (refused(fd, at + sum(parts, count))) return -1;
    return syscall(SYS_pwritev2, fd, parts, count, (long)at, 0L, 0);
}
ssize_t pwritev(int fd, const struct iovec *parts, int count, off_t at) { return pwritev64(fd, parts, count, at); }
int fallocate64(int fd, int mode, off64_t at, off64_t length) {
    if (refused(fd, at + length)) return -1;
    return (int)syscall(SYS_fallocate, fd, mode, at, length);
}
int fallocate(int fd, int mode, off_t at, off_t length) { return fallocate64(fd, mode, at, length); }
int posix_fallocate64(int fd, off64_t at, off64_t length) { return fallocate64(fd, 0, at, length) == 0 ? 0 : errno; }
int posix_fallocate(int fd, off_t at, off_t length) { return posix_fallocate64(fd, at, length); }
int fsync(int fd) {
    refused(fd, 0);
    return (int)syscall(SYS_fsync, fd);
}
int fdatasync(int fd) {
    refused(fd, 0);
    return (int)syscall(SYS_fdatasync, fd);
}

/* --- clock ------------------------------------------------------------------------------------------------------------ */

int clock_gettime(clockid_t clock, struct timespec *time) {
    static int (*volatile next)(clockid_t, struct timespec *);
    if (!next) next = REAL(clock_gettime);
    int result = next(clock, time);
    if (result == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) time->tv_sec += NOW(clock_s);
    return result;
}
int gettimeofday(struct timeval *time, void *zone) {
    struct timespec now;
    (void)zone;
    int result = clock_gettime(CLOCK_REALTIME, &now);
    time->tv_sec = now.tv_sec;
    time->tv_usec = now.tv_nsec / 1000;
    return result;
}
time_t time(time_t *out) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (out) *out = now.tv_sec;
    return now.tv_sec;
}

/* --- network ---------------------------------------------------------------------------------------------------------- */

int connect(int fd, const struct sockaddr *to, socklen_t length) {
    const struct sockaddr_in *address = (const void *)to;
    if (source.s_addr && length >= sizeof *address && to->sa_family == AF_INET &&
        address->sin_addr.s_addr == htonl(INADDR_LOOPBACK + 1)) {
        struct sockaddr_in from = {.sin_family = AF_INET, .sin_addr = source};
        int yes = 1;
        setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &yes, sizeof yes);
        if (bind(fd, (const struct sockaddr *)&from, sizeof from) != 0) return -1;
    }
    return (int)syscall(SYS_connect, fd, to, length);
}
