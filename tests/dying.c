/* Ends the process with SIGKILL before its k-th call that changes a file or speaks to a server; preloaded by tests.
   One counter serves all threads, which the counters of strace's `when=` do not. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <unistd.h>

static atomic_long made;
static atomic_long last;

/* Count from now on, and die before call number `number`; 0 counts alone. */
void die_before(long number) {
    atomic_store(&last, number);
    atomic_store(&made, 0);
}

long calls_made(void) { return atomic_load(&made); }

static void count(void) {
    long number = atomic_fetch_add(&made, 1) + 1;
    if (number == atomic_load(&last)) {
        kill(getpid(), SIGKILL);
        pause();
    }
}

#define COUNTED(result, name, declared, passed)                        \
    result name declared {                                             \
        static result (*real) declared;                                \
        if (!real) real = (result(*) declared)dlsym(RTLD_NEXT, #name); \
        count();                                                       \
        return real passed;                                            \
    }

COUNTED(ssize_t, pwrite64, (int file, const void *bytes, size_t size, off64_t place), (file, bytes, size, place))
COUNTED(int, fsync, (int file), (file))
COUNTED(int, fdatasync, (int file), (file))
COUNTED(int, ftruncate64, (int file, off64_t size), (file, size))
COUNTED(int, unlink, (const char *path), (path))
COUNTED(ssize_t, send, (int socket, const void *bytes, size_t size, int flags), (socket, bytes, size, flags))
