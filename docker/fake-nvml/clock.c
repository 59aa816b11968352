/* One clock for every process: what two of them read at one moment is one value. */
#include "clock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static _Atomic(const _Atomic uint64_t *) shown; /* NULL: the machine's clock */

/* A page that was mapped stays: another thread may be reading it. The file that is shown is not mapped again. */
static const void *mapped(const char *path) {
    static dev_t device;
    static ino_t inode;
    struct stat status;
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) return NULL;
    const void *page = MAP_FAILED;
    if (fstat(file, &status) || status.st_size < 8) errno = EINVAL;
    else if (shown && status.st_dev == device && status.st_ino == inode) page = (const void *)shown;
    else page = mmap(NULL, 8, PROT_READ, MAP_SHARED, file, 0);
    int code = errno;
    close(file);
    errno = code;
    if (page == MAP_FAILED) return NULL;
    device = status.st_dev;
    inode = status.st_ino;
    return page;
}

bool open_clock(void) {
    const char *path = getenv("HPCKIT_FAKE_NVML_CLOCK");
    if (!path || !*path) {
        shown = NULL;
        return true;
    }
    const void *page = mapped(path);
    if (page) shown = page;
    else
        fprintf(stderr, "fake NVML (synthetic): HPCKIT_FAKE_NVML_CLOCK=%s: %s; it names a file of 8 bytes\n", path,
                strerror(errno));
    return page != NULL;
}

int64_t now_ns(void) {
    const _Atomic uint64_t *clock = shown;
    if (clock) {
        uint64_t value = atomic_load_explicit(clock, memory_order_acquire);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
        value = __builtin_bswap64(value);
#endif
        return (int64_t)value;
    }
    struct timespec time;
    clock_gettime(CLOCK_REALTIME, &time);
    return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}
