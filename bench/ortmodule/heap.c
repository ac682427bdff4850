/* The live bytes of the heap in blocks of 512 bytes or more, and their peak, by LD_PRELOAD. Smaller ones are Python's.
   cc -O2 -shared -fPIC -o heap.so heap.c */
#include <errno.h>
#include <malloc.h>
#include <stdatomic.h>
#include <stddef.h>

enum { SMALL = 512 };
static atomic_long live, peak;

void *__libc_malloc(size_t);
void *__libc_calloc(size_t, size_t);
void *__libc_realloc(void *, size_t);
void *__libc_memalign(size_t, size_t);
void __libc_free(void *);

static long size_of(void *block) {
    long n = block ? (long)malloc_usable_size(block) : 0;
    return n < SMALL ? 0 : n;
}

static void *taken(void *block) {
    long n = size_of(block), now = atomic_fetch_add(&live, n) + n, top = atomic_load(&peak);
    while (now > top && !atomic_compare_exchange_weak(&peak, &top, now)) {
    }
    return block;
}

static void given(void *block) { atomic_fetch_sub(&live, size_of(block)); }

void *malloc(size_t n) { return taken(__libc_malloc(n)); }
void *calloc(size_t count, size_t n) { return taken(__libc_calloc(count, n)); }
void *memalign(size_t alignment, size_t n) { return taken(__libc_memalign(alignment, n)); }
void *aligned_alloc(size_t alignment, size_t n) { return taken(__libc_memalign(alignment, n)); }

void *realloc(void *block, size_t n) {
    given(block);
    void *moved = __libc_realloc(block, n);
    return taken(moved ? moved : n ? block : NULL);
}

int posix_memalign(void **block, size_t alignment, size_t n) {
    void *p = taken(__libc_memalign(alignment, n));
    if (p)
        *block = p;
    return p ? 0 : ENOMEM;
}

void free(void *block) {
    given(block);
    __libc_free(block);
}

long heap_live(void) { return atomic_load(&live); }
long heap_peak(void) { return atomic_load(&peak); }
void heap_restart(void) { atomic_store(&peak, atomic_load(&live)); }
