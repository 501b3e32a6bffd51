/*
 * A disk that forgets. Loaded before a program (LD_PRELOAD), this library passes file calls through and writes down, for
 * files below one folder, what was written and what was synced. After the program was killed, the log says what a power
 * loss at that moment could have left; see src/power/.
 *
 *   TIDEGATE_TORTURE_DIR     the folder, absolute
 *   TIDEGATE_TORTURE_LOG     the log; records are appended
 *   TIDEGATE_TORTURE_FAULTS  "seed=1 write_eio=5 sync_eio=5 short=20 enospc_after=1000000 enospc_for=50"
 *                            chances are of 10,000 calls; enospc_after counts bytes, enospc_for calls that then fail
 *
 * Files are known by device and inode, so it does not matter how a descriptor came about. One mutex is held over a call and its
 * record, so the log's order is that of the calls. A call that was cut off by the kill may be missing at the end of the log.
 * What stdio writes is not seen call by call; such a file is adopted as a whole when it is synced or renamed.
 * The position of a record in the log is its time: "synced" names the size of the log when the sync began, and only what lies
 * before that is safe.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum kind { HELLO, OPENED, CREATED, WRITTEN, TRUNCATED, SYNCED, SYNC_FAILED, RENAMED, UNLINKED, MADE_DIR, REMOVED_DIR, DIR_SYNCED, LINKED, UNSEEN, FAULTED };

struct record {
    uint32_t magic, kind;
    uint64_t file, offset, length; /* length of the payload that follows */
};

#define MAGIC 0x31564754u /* "TGV1" */
#define MAX_FILES 65536

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char dir[PATH_MAX];
static size_t dir_len;
static int log_fd = -1;
static struct { dev_t dev; ino_t ino; uint64_t id, adopted; } files[MAX_FILES];
static size_t file_count;
static uint64_t next_id;

static struct { uint64_t random, write_eio, sync_eio, shorten, enospc_after, enospc_for, written, failing; } faults;

/* The next function of this name: the C library's. */
#define REAL(name) ((__typeof__(&name))real(#name))
static void *real(const char *name) {
    return dlsym(RTLD_NEXT, name);
}

/* Reads "name=number" words. A fault that is asked for under a name that is not known would never come: stop there. */
static void read_faults(const char *text) {
    static const struct { const char *name; uint64_t *value; } known[] = {
        {"seed", &faults.random},         {"write_eio", &faults.write_eio},       {"sync_eio", &faults.sync_eio},
        {"short", &faults.shorten},       {"enospc_after", &faults.enospc_after}, {"enospc_for", &faults.enospc_for},
    };
    while (text && *(text += strspn(text, " "))) {
        size_t length = strcspn(text, "= "), i = 0, count = sizeof known / sizeof *known;
        while (i < count && (strlen(known[i].name) != length || strncmp(known[i].name, text, length) != 0)) i++;
        char *end = NULL;
        if (i < count && text[length] == '=') *known[i].value = strtoull(text + length + 1, &end, 10);
        if (!end || end == text + length + 1 || (*end && *end != ' ')) {
            fprintf(stderr, "volatile.so: TIDEGATE_TORTURE_FAULTS has an unknown fault: %s\n", text);
            abort();
        }
        text = end;
    }
}

static void put(enum kind kind, uint64_t file, uint64_t offset, const struct iovec *parts, int count);

static void log_text(enum kind kind, uint64_t file, uint64_t offset, const char *text) {
    struct iovec part = {(void *)text, strlen(text)};
    put(kind, file, offset, &part, 1);
}

__attribute__((constructor)) static void start(void) {
    const char *folder = getenv("TIDEGATE_TORTURE_DIR"), *path = getenv("TIDEGATE_TORTURE_LOG");
    const char *wanted = getenv("TIDEGATE_TORTURE_FAULTS");
    struct timespec now;
    if (!folder || !path || !realpath(folder, dir)) return;
    dir_len = strlen(dir);
    clock_gettime(CLOCK_REALTIME, &now);
    next_id = (uint64_t)now.tv_nsec << 34; /* a program that replaces another in the same process must not reuse its numbers */
    read_faults(wanted);
    faults.random++;
    log_fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    log_text(HELLO, (uint64_t)getpid(), 0, program_invocation_name);
}

static void put(enum kind kind, uint64_t file, uint64_t offset, const struct iovec *parts, int count) {
    struct iovec all[17];
    struct record head = {MAGIC, kind, file, offset, 0};
    if (log_fd < 0) return;
    all[0].iov_base = &head;
    all[0].iov_len = sizeof head;
    for (int i = 0; i < count && i < 16; i++) {
        all[i + 1] = parts[i];
        head.length += parts[i].iov_len;
    }
    /* One call, so that records of several processes do not mix. A log that cannot be written would be a lie: stop here. */
    if (syscall(SYS_writev, log_fd, all, count + 1) != (long)(sizeof head + head.length)) abort();
}

static uint64_t log_size(void) {
    struct stat status;
    return log_fd >= 0 && fstat(log_fd, &status) == 0 ? (uint64_t)status.st_size : 0;
}

/* A fault has come: the rig counts them. */
static void note_fault(void) {
    put(FAULTED, 0, 0, NULL, 0);
}

static uint64_t chance(void) {
    faults.random ^= faults.random << 13;
    faults.random ^= faults.random >> 7;
    faults.random ^= faults.random << 17;
    return faults.random % 10000;
}

static int below(const char *path) {
    return dir_len && strncmp(path, dir, dir_len) == 0 && (path[dir_len] == '/' || path[dir_len] == 0);
}

/* The absolute path of an entry, whether it exists or not. False when it is outside of the folder. */
static int entry(int at, const char *path, char *out) {
    char parent[PATH_MAX], link[64], name[NAME_MAX + 1];
    const char *slash = strrchr(path, '/');
    size_t length = strlen(path);
    if (log_fd < 0 || length == 0 || length >= PATH_MAX - 64) return 0;
    if (path[0] == '/' || at == AT_FDCWD) {
        snprintf(parent, sizeof parent, "%.*s", slash ? (int)(slash - path) + 1 : 1, slash ? path : ".");
    } else {
        snprintf(link, sizeof link, "/proc/self/fd/%d", at);
        snprintf(parent, sizeof parent, "%s/%.*s", link, slash ? (int)(slash - path) : 0, slash ? path : "");
    }
    snprintf(name, sizeof name, "%s", slash ? slash + 1 : path);
    if (!realpath(parent, out)) return 0;
    length = strlen(out);
    if (length + strlen(name) + 2 > PATH_MAX) return 0;
    out[length] = '/';
    strcpy(out + length + 1, name);
    return below(out);
}

static int path_of(int fd, char *out) {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, out, PATH_MAX - 1);
    if (length < 0) return 0;
    out[length] = 0;
    return below(out);
}

/* The place of a file among those that are known; file_count for one that is not. */
static size_t place_of(const struct stat *status) {
    size_t place = 0;
    while (place < file_count && (files[place].ino != status->st_ino || files[place].dev != status->st_dev)) place++;
    return place;
}

static uint64_t known(const struct stat *status) {
    size_t place = place_of(status);
    return place < file_count ? files[place].id : 0;
}

/* A file has lost its last name: its inode may come again as another file. */
static void forget(const struct stat *status) {
    size_t place = place_of(status);
    if (S_ISREG(status->st_mode) && status->st_nlink == 1 && place < file_count) files[place] = files[--file_count];
}

/* Notes a file under a new number. */
static uint64_t note(const struct stat *status, enum kind kind, const char *path) {
    size_t place = place_of(status);
    if (place == MAX_FILES) abort();
    if (place == file_count) file_count++;
    files[place].dev = status->st_dev;
    files[place].ino = status->st_ino;
    files[place].id = ++next_id;
    files[place].adopted = 0;
    log_text(kind, next_id, status->st_mode & 07777, path);
    return next_id;
}

/* The number of the regular file behind a descriptor; 0 for what is not ours. */
static uint64_t file_of(int fd) {
    struct stat status;
    if (log_fd < 0 || file_count == 0 || fstat(fd, &status) != 0 || !S_ISREG(status.st_mode)) return 0;
    return known(&status);
}

/* A number for a file's content, never 0. */
static uint64_t digest(int fd) {
    unsigned char chunk[65536];
    uint64_t sum = 0xcbf29ce484222325u;
    ssize_t count;
    for (off_t offset = 0; (count = pread(fd, chunk, sizeof chunk, offset)) > 0; offset += count)
        for (ssize_t i = 0; i < count; i++) sum = (sum ^ chunk[i]) * 0x100000001b3u;
    return sum | 1;
}

/* A file that is written in a way that is not seen (stdio): all of it counts as written now, and again when it has changed. */
static void adopt(const char *path) {
    struct stat status;
    char chunk[65536];
    off_t offset = 0;
    ssize_t count;
    if (stat(path, &status) != 0 || !S_ISREG(status.st_mode)) return;
    size_t place = place_of(&status);
    if (place < file_count && !files[place].adopted) return;
    int fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0);
    if (fd < 0) return;
    uint64_t sum = digest(fd);
    if (place < file_count && files[place].adopted == sum) {
        syscall(SYS_close, fd);
        return;
    }
    uint64_t file = place < file_count ? files[place].id : note(&status, CREATED, path);
    files[place].adopted = sum;
    put(TRUNCATED, file, 0, NULL, 0);
    while ((count = pread(fd, chunk, sizeof chunk, offset)) > 0) {
        struct iovec part = {chunk, (size_t)count};
        put(WRITTEN, file, (uint64_t)offset, &part, 1);
        offset += count;
    }
    syscall(SYS_close, fd);
}

/* --- opening ---------------------------------------------------------------------------------------------------------- */

static int opened(int at, const char *path, int flags, mode_t mode) {
    struct stat status;
    char full[PATH_MAX];
    int writes = (flags & O_ACCMODE) != O_RDONLY || (flags & O_CREAT);
    __typeof__(&openat) next = REAL(openat);
    if (log_fd < 0 || !writes || (flags & O_TMPFILE) == O_TMPFILE) return next(at, path, flags, mode);
    pthread_mutex_lock(&lock);
    int existed = fstatat(at, path, &status, 0) == 0;
    int fd = next(at, path, flags, mode), error = errno;
    if (fd >= 0 && path_of(fd, full) && fstat(fd, &status) == 0 && S_ISREG(status.st_mode)) {
        uint64_t file = existed ? known(&status) : 0;
        if (!file) file = note(&status, existed ? OPENED : CREATED, full);
        if (existed && (flags & O_TRUNC)) put(TRUNCATED, file, 0, NULL, 0);
    }
    pthread_mutex_unlock(&lock);
    errno = error;
    return fd;
}

#define MODE(flags) ({ mode_t mode = 0; if ((flags) & (O_CREAT | O_TMPFILE)) { va_list more; va_start(more, flags); mode = va_arg(more, mode_t); va_end(more); } mode; })

int open(const char *path, int flags, ...) { return opened(AT_FDCWD, path, flags, MODE(flags)); }
int open64(const char *path, int flags, ...) { return opened(AT_FDCWD, path, flags, MODE(flags)); }
int openat(int at, const char *path, int flags, ...);
int openat64(int at, const char *path, int flags, ...) { return opened(at, path, flags, MODE(flags)); }
int openat(int at, const char *path, int flags, ...) { return opened(at, path, flags, MODE(flags)); }
int creat(const char *path, mode_t mode) { return opened(AT_FDCWD, path, O_CREAT | O_WRONLY | O_TRUNC, mode); }
int creat64(const char *path, mode_t mode) { return creat(path, mode); }
int __open_2(const char *path, int flags) { return opened(AT_FDCWD, path, flags, 0); }
int __open64_2(const char *path, int flags) { return opened(AT_FDCWD, path, flags, 0); }

/* --- writing ---------------------------------------------------------------------------------------------------------- */

/* Whether a write of so many bytes fails, with errno set; or how many bytes it may take. */
static int refused(size_t *length) {
    if (faults.enospc_after) {
        if (faults.failing) {
            if (--faults.failing == 0) faults.written = 0;
            note_fault();
            errno = ENOSPC;
            return 1;
        }
        faults.written += *length;
        if (faults.written > faults.enospc_after) faults.failing = faults.enospc_for + 1;
    }
    if (faults.write_eio && chance() < faults.write_eio) {
        note_fault();
        errno = EIO;
        return 1;
    }
    if (faults.shorten && *length > 1 && chance() < faults.shorten) {
        note_fault();
        *length = 1 + chance() % (*length - 1);
    }
    return 0;
}

/* Writes at an offset, or at the file's position for -1; flags as for pwritev2. */
static ssize_t written(int fd, const struct iovec *parts, int count, off_t offset, int flags) {
    size_t length = 0, wanted;
    ssize_t done;
    pthread_mutex_lock(&lock);
    uint64_t file = file_of(fd);
    for (int i = 0; i < count; i++) length += parts[i].iov_len;
    wanted = length;
    if (file && refused(&wanted)) {
        pthread_mutex_unlock(&lock);
        return -1;
    }
    if (file && (wanted < length || count > 16)) { /* the first part only, or as much of it as is allowed */
        struct iovec first = parts[0];
        if (first.iov_len > wanted) first.iov_len = wanted;
        done = offset < 0 ? syscall(SYS_writev, fd, &first, 1) : syscall(SYS_pwrite64, fd, first.iov_base, first.iov_len, offset);
    } else if (!file) {
        pthread_mutex_unlock(&lock); /* a socket or a pipe may block for long */
        if (offset < 0) return syscall(SYS_writev, fd, parts, count);
        return syscall(SYS_pwritev2, fd, parts, count, (long)offset, 0L, flags);
    } else if (offset < 0) {
        done = syscall(SYS_writev, fd, parts, count);
    } else {
        done = syscall(SYS_pwritev2, fd, parts, count, (long)offset, 0L, flags);
    }
    int error = errno;
    if (done > 0) {
        struct iovec logged[16];
        ssize_t rest = done;
        int used = 0;
        if (offset < 0 || (fcntl(fd, F_GETFL) & O_APPEND)) {
            struct stat status;
            off_t end = offset < 0 ? lseek(fd, 0, SEEK_CUR) : (fstat(fd, &status) == 0 ? status.st_size : 0);
            offset = end - done;
        }
        for (; used < 16 && rest > 0; used++) {
            logged[used] = parts[used];
            if ((ssize_t)logged[used].iov_len > rest) logged[used].iov_len = (size_t)rest;
            rest -= (ssize_t)logged[used].iov_len;
        }
        put(WRITTEN, file, (uint64_t)offset, logged, used);
        if ((fcntl(fd, F_GETFL) & O_DSYNC) || (flags & RWF_DSYNC)) put(SYNCED, file, log_size(), NULL, 0);
    }
    pthread_mutex_unlock(&lock);
    errno = error;
    return done;
}

ssize_t write(int fd, const void *bytes, size_t length) {
    struct iovec part = {(void *)bytes, length};
    return written(fd, &part, 1, -1, 0);
}
ssize_t writev(int fd, const struct iovec *parts, int count) { return written(fd, parts, count, -1, 0); }
static ssize_t written_at(int fd, const void *bytes, size_t length, off_t offset) {
    struct iovec part = {(void *)bytes, length};
    if (offset < 0) { errno = EINVAL; return -1; }
    return written(fd, &part, 1, offset, 0);
}
ssize_t pwrite(int fd, const void *bytes, size_t length, off_t offset) { return written_at(fd, bytes, length, offset); }
ssize_t pwrite64(int fd, const void *bytes, size_t length, off64_t offset) { return written_at(fd, bytes, length, offset); }
ssize_t pwritev(int fd, const struct iovec *parts, int count, off_t offset) { return written(fd, parts, count, offset, 0); }
ssize_t pwritev64(int fd, const struct iovec *parts, int count, off64_t offset) { return written(fd, parts, count, offset, 0); }
ssize_t pwritev2(int fd, const struct iovec *parts, int count, off_t offset, int flags) { return written(fd, parts, count, offset, flags); }
ssize_t pwritev64v2(int fd, const struct iovec *parts, int count, off64_t offset, int flags) { return written(fd, parts, count, offset, flags); }

/* Data that moves within the kernel is not seen: say that it cannot be done, and programs read and write instead. */
ssize_t copy_file_range(int in, off64_t *from, int out, off64_t *to, size_t length, unsigned flags) {
    pthread_mutex_lock(&lock);
    uint64_t ours = file_of(out);
    pthread_mutex_unlock(&lock);
    if (ours) { errno = ENOSYS; return -1; }
    return REAL(copy_file_range)(in, from, out, to, length, flags);
}
ssize_t sendfile(int out, int in, off_t *offset, size_t length) {
    pthread_mutex_lock(&lock);
    uint64_t ours = file_of(out);
    pthread_mutex_unlock(&lock);
    if (ours) { errno = EINVAL; return -1; }
    return syscall(SYS_sendfile, out, in, offset, length);
}
ssize_t sendfile64(int out, int in, off64_t *offset, size_t length) { return sendfile(out, in, offset, length); }

void *mmap(void *address, size_t length, int protection, int flags, int fd, off_t offset) {
    if (fd >= 0 && (flags & MAP_SHARED) && (protection & PROT_WRITE)) {
        pthread_mutex_lock(&lock);
        if (file_of(fd)) log_text(UNSEEN, 0, 0, "a file is written through memory (mmap)");
        pthread_mutex_unlock(&lock);
    }
    return (void *)syscall(SYS_mmap, address, length, protection, flags, fd, offset);
}
void *mmap64(void *address, size_t length, int protection, int flags, int fd, off64_t offset) { return mmap(address, length, protection, flags, fd, offset); }

/* --- length ----------------------------------------------------------------------------------------------------------- */

int ftruncate(int fd, off_t length) {
    pthread_mutex_lock(&lock);
    uint64_t file = file_of(fd);
    int result = (int)syscall(SYS_ftruncate, fd, length), error = errno;
    if (result == 0 && file) put(TRUNCATED, file, (uint64_t)length, NULL, 0);
    pthread_mutex_unlock(&lock);
    errno = error;
    return result;
}
int ftruncate64(int fd, off64_t length) { return ftruncate(fd, length); }

int truncate(const char *path, off_t length) {
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0) return -1;
    int result = ftruncate(fd, length), error = errno;
    close(fd);
    errno = error;
    return result;
}
int truncate64(const char *path, off64_t length) { return truncate(path, length); }

int fallocate(int fd, int mode, off_t offset, off_t length) {
    struct stat before, after;
    size_t wanted = (size_t)length;
    pthread_mutex_lock(&lock);
    uint64_t file = file_of(fd);
    if (file && (refused(&wanted) || fstat(fd, &before) != 0)) {
        pthread_mutex_unlock(&lock);
        return -1;
    }
    int result = (int)syscall(SYS_fallocate, fd, mode, offset, length), error = errno;
    if (result == 0 && file) {
        if (mode & ~FALLOC_FL_KEEP_SIZE) log_text(UNSEEN, 0, 0, "a file is changed by fallocate");
        if (fstat(fd, &after) == 0 && after.st_size != before.st_size) put(TRUNCATED, file, (uint64_t)after.st_size, NULL, 0);
    }
    pthread_mutex_unlock(&lock);
    errno = error;
    return result;
}
int fallocate64(int fd, int mode, off64_t offset, off64_t length) { return fallocate(fd, mode, offset, length); }
int posix_fallocate(int fd, off_t offset, off_t length) { return fallocate(fd, 0, offset, length) == 0 ? 0 : errno; }
int posix_fallocate64(int fd, off64_t offset, off64_t length) { return posix_fallocate(fd, offset, length); }

/* --- syncing ---------------------------------------------------------------------------------------------------------- */

static int synced(int fd, long call) {
    struct stat status;
    char path[PATH_MAX];
    int is_dir = 0, fails = 0;
    uint64_t file = 0, begun = 0;
    pthread_mutex_lock(&lock);
    if (log_fd >= 0 && fstat(fd, &status) == 0 && path_of(fd, path)) {
        is_dir = S_ISDIR(status.st_mode);
        if (S_ISREG(status.st_mode)) {
            adopt(path);
            file = known(&status);
        }
        begun = log_size();
        fails = faults.sync_eio && chance() < faults.sync_eio;
        if (fails) note_fault();
    }
    pthread_mutex_unlock(&lock);
    int result = fails ? -1 : (int)syscall(call, fd), error = fails ? EIO : errno;
    pthread_mutex_lock(&lock);
    if (file) put(result == 0 ? SYNCED : SYNC_FAILED, file, begun, NULL, 0);
    if (is_dir && result == 0) log_text(DIR_SYNCED, 0, begun, path);
    pthread_mutex_unlock(&lock);
    errno = error;
    return result;
}

int fsync(int fd) { return synced(fd, SYS_fsync); }
int fdatasync(int fd) { return synced(fd, SYS_fdatasync); }

/* --- names ------------------------------------------------------------------------------------------------------------ */

static void log_pair(enum kind kind, const char *from, const char *to) {
    struct iovec parts[2] = {{(void *)from, strlen(from) + 1}, {(void *)to, strlen(to)}};
    put(kind, 0, 0, parts, 2);
}

static int renamed(int from_at, const char *from, int to_at, const char *to, unsigned flags) {
    char old[PATH_MAX], new[PATH_MAX];
    pthread_mutex_lock(&lock);
    int ours = entry(from_at, from, old) & entry(to_at, to, new);
    struct stat replaced, moved;
    if (ours) adopt(old);
    int replaces = ours && lstat(old, &moved) == 0 && lstat(new, &replaced) == 0 && moved.st_ino != replaced.st_ino;
    int result = (int)syscall(SYS_renameat2, from_at, from, to_at, to, flags), error = errno;
    if (result == 0 && ours) {
        if (replaces && !(flags & RENAME_EXCHANGE)) forget(&replaced);
        if (flags & RENAME_EXCHANGE) log_text(UNSEEN, 0, 0, "files are exchanged by renameat2");
        log_pair(RENAMED, old, new);
    }
    pthread_mutex_unlock(&lock);
    errno = error;
    return result;
}
int rename(const char *from, const char *to) { return renamed(AT_FDCWD, from, AT_FDCWD, to, 0); }
int renameat(int from_at, const char *from, int to_at, const char *to) { return renamed(from_at, from, to_at, to, 0); }
int renameat2(int from_at, const char *from, int to_at, const char *to, unsigned flags) { return renamed(from_at, from, to_at, to, flags); }

int linkat(int from_at, const char *from, int to_at, const char *to, int flags) {
    char old[PATH_MAX], new[PATH_MAX];
    pthread_mutex_lock(&lock);
    int ours = entry(from_at, from, old) & entry(to_at, to, new);
    if (ours) adopt(old);
    int result = (int)syscall(SYS_linkat, from_at, from, to_at, to, flags), error = errno;
    if (result == 0 && ours) log_pair(LINKED, old, new);
    pthread_mutex_unlock(&lock);
    errno = error;
    return result;
}
int link(const char *from, const char *to) { return linkat(AT_FDCWD, from, AT_FDCWD, to, 0); }

/* A call that takes or gives one name. */
static int named(enum kind kind, int at, const char *path, long call, long argument) {
    char full[PATH_MAX];
    pthread_mutex_lock(&lock);
    struct stat status;
    int ours = entry(at, path, full);
    int ends = ours && kind == UNLINKED && lstat(full, &status) == 0;
    int result = (int)syscall(call, at, path, argument), error = errno;
    if (result == 0 && ends) forget(&status);
    if (result == 0 && ours) log_text(kind, 0, kind == MADE_DIR ? (uint64_t)argument : 0, full);
    pthread_mutex_unlock(&lock);
    errno = error;
    return result;
}
int unlinkat(int at, const char *path, int flags) { return named(flags & AT_REMOVEDIR ? REMOVED_DIR : UNLINKED, at, path, SYS_unlinkat, flags); }
int unlink(const char *path) { return unlinkat(AT_FDCWD, path, 0); }
int rmdir(const char *path) { return unlinkat(AT_FDCWD, path, AT_REMOVEDIR); }
int remove(const char *path) {
    int result = unlink(path);
    return result != 0 && errno == EISDIR ? rmdir(path) : result;
}
int mkdirat(int at, const char *path, mode_t mode) { return named(MADE_DIR, at, path, SYS_mkdirat, (long)mode); }
int mkdir(const char *path, mode_t mode) { return mkdirat(AT_FDCWD, path, mode); }
