// Fibers, barriers and checked memory: see play.h.
#include "play.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/mman.h>
#include <ucontext.h>

#include <map>
#include <string>
#include <vector>

thread_local play::Dim threadIdx, blockIdx, blockDim, gridDim;

namespace play {

struct Kernel {
    Body body;
    size_t params;
    u32 threads;
};

static std::map<std::string, Kernel>& kernels() {
    static std::map<std::string, Kernel> all;
    return all;
}

Registration::Registration(const char* name, Body body, size_t params, u32 threads) {
    kernels()[name] = Kernel{body, params, threads};
}

static const size_t STACK = 64 << 10, GUARD = 4 << 10, MAX_THREADS = 1024, SHARED_BYTES = 48 << 10;

enum State { READY, WAITS_BLOCK, WAITS_WARP, DONE };

struct Fiber {
    jmp_buf at;
    ucontext_t context;
    void* stack = nullptr;
    bool started = false;
    State state = DONE;
    Dim index;
    // The wait that it is in: lanes it waits for, and the number of such waits before it.
    u32 mask = 0;
    u32 turn = 0;
};

// Lanes of a warp that meet under one mask. Values are kept twice: a lane may be a wait ahead of the others.
struct Meeting {
    u32 mask = 0;
    u32 arrived = 0;
    u32 turn = 0;
    u64 values[2][32];
};

struct Warp {
    std::vector<Meeting> meetings;
};

struct Buffer {
    uintptr_t start, end;
};

struct Machine {
    std::vector<Fiber> fibers{MAX_THREADS};
    std::vector<Warp> warps{MAX_THREADS / 32};
    std::vector<Buffer> buffers;
    size_t last = 0;
    alignas(16) u8 memory[SHARED_BYTES];
    Body body = nullptr;
    const void* params = nullptr;
    u32 threads = 0, waiting = 0;
    Fiber* current = nullptr;
    jmp_buf scheduler, launch;
    const char* name = "";
    char message[512];

    ~Machine() {
        for (Fiber& fiber : fibers)
            if (fiber.stack) munmap(fiber.stack, STACK + GUARD);
    }
};

static Machine& machine() {
    static thread_local Machine* m = nullptr;
    struct Owner {
        Machine* m = new Machine;
        ~Owner() { delete m; }
    };
    if (!m) {
        static thread_local Owner owner;
        m = owner.m;
    }
    return *m;
}

void fail(const char* format, ...) {
    Machine& m = machine();
    char what[256];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    snprintf(m.message, sizeof m.message, "kernel `%s`, block (%u, %u, %u), thread (%u, %u, %u): %s", m.name, blockIdx.x,
             blockIdx.y, blockIdx.z, threadIdx.x, threadIdx.y, threadIdx.z, what);
    // Fibers that are not done are left where they are, and begin anew in the next launch.
    for (Fiber& fiber : m.fibers) fiber.started = false;
    _longjmp(m.launch, 1);
}

void check(const void* address, size_t size, size_t alignment) {
    Machine& m = machine();
    uintptr_t at = (uintptr_t)address;
    auto holds = [&](const Buffer& b) { return at >= b.start && at < b.end && size <= b.end - at; };
    if (m.last >= m.buffers.size() || !holds(m.buffers[m.last])) {
        size_t i = 0;
        while (i < m.buffers.size() && !holds(m.buffers[i])) i++;
        if (i == m.buffers.size()) {
            // Buffers have a kilobyte of nothing around them: what is nearer is meant.
            for (size_t n = 0; n < m.buffers.size(); n++) {
                const Buffer& b = m.buffers[n];
                if (at + 1024 >= b.start && at < b.end + 1024)
                    fail("%zu bytes at offset %lld of buffer %zu, which has %zu", size, (long long)(at - b.start), n,
                         (size_t)(b.end - b.start));
            }
            fail("%zu bytes at %p, which is in no buffer", size, address);
        }
        m.last = i;
    }
    if (at % alignment) fail("%zu bytes at %p, which is not a multiple of %zu", size, address, alignment);
}

void* shared(size_t size) {
    if (size > SHARED_BYTES) fail("%zu bytes of shared memory", size);
    return machine().memory;
}

// Back to the scheduler, until it is this fiber's turn again.
static void leave(State state) {
    Machine& m = machine();
    Fiber* fiber = m.current;
    fiber->state = state;
    if (!_setjmp(fiber->at)) _longjmp(m.scheduler, 1);
}

void sync_block() {
    Machine& m = machine();
    m.waiting++;
    leave(WAITS_BLOCK);
}

const u64* exchange(u32 mask, u64 value) {
    Machine& m = machine();
    u32 linear = (u32)(m.current - m.fibers.data()), lane = linear % 32;
    if (!(mask >> lane & 1)) fail("lane %u waits for mask %08x, which it is not in", lane, mask);
    Warp& warp = m.warps[linear / 32];
    Meeting* meeting = nullptr;
    for (Meeting& other : warp.meetings)
        if (other.mask == mask) meeting = &other;
    if (!meeting) {
        warp.meetings.reserve(64);
        if (warp.meetings.size() == 64) fail("more than 64 masks in one warp");
        warp.meetings.emplace_back();
        meeting = &warp.meetings.back();
        meeting->mask = mask;
    }
    u32 turn = meeting->turn;
    u64* values = meeting->values[turn & 1];
    if (!meeting->arrived) memset(values, 0xEE, sizeof meeting->values[0]);
    values[lane] = value;
    meeting->arrived |= 1u << lane;
    if (meeting->arrived == mask) {
        meeting->arrived = 0;
        meeting->turn++;
    } else {
        m.current->mask = mask;
        m.current->turn = turn;
        leave(WAITS_WARP);
    }
    return values;
}

static void fiber_main() {
    for (;;) {
        Machine& m = machine();
        m.body(m.params);
        leave(DONE);
    }
}

static void resume(Machine& m, Fiber& fiber) {
    m.current = &fiber;
    threadIdx = fiber.index;
    if (_setjmp(m.scheduler)) return;
    if (fiber.started) _longjmp(fiber.at, 1);
    fiber.started = true;
    if (!fiber.stack) {
        fiber.stack = mmap(nullptr, STACK + GUARD, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (fiber.stack == MAP_FAILED) {
            fiber.stack = nullptr;
            fail("no memory for the stack of a thread");
        }
        mprotect(fiber.stack, GUARD, PROT_NONE);
    }
    getcontext(&fiber.context);
    fiber.context.uc_stack.ss_sp = (char*)fiber.stack + GUARD;
    fiber.context.uc_stack.ss_size = STACK;
    fiber.context.uc_link = nullptr;
    makecontext(&fiber.context, fiber_main, 0);
    setcontext(&fiber.context);
}

static bool can_go_on(Machine& m, Fiber& fiber, u32 n) {
    if (fiber.state == READY) return true;
    if (fiber.state != WAITS_WARP) return false;
    for (Meeting& meeting : m.warps[n / 32].meetings)
        if (meeting.mask == fiber.mask) return meeting.turn != fiber.turn;
    return false;
}

static void run_block(Machine& m, bool backward, u8 poison) {
    memset(m.memory, poison, sizeof m.memory);
    m.waiting = 0;
    for (u32 n = 0; n < (m.threads + 31) / 32; n++) m.warps[n].meetings.clear();
    for (u32 n = 0; n < m.threads; n++) {
        Fiber& fiber = m.fibers[n];
        fiber.state = READY;
        fiber.index = Dim{n % blockDim.x, n / blockDim.x % blockDim.y, n / blockDim.x / blockDim.y};
    }
    for (;;) {
        u32 done = 0;
        bool moved = false;
        for (u32 k = 0; k < m.threads; k++) {
            u32 n = backward ? m.threads - 1 - k : k;
            Fiber& fiber = m.fibers[n];
            if (can_go_on(m, fiber, n)) {
                resume(m, fiber);
                moved = true;
            }
            done += fiber.state == DONE;
        }
        if (done == m.threads) return;
        if (moved) continue;
        if (m.waiting == m.threads) {
            m.waiting = 0;
            for (u32 n = 0; n < m.threads; n++) m.fibers[n].state = READY;
        } else {
            fail("%u of %u threads wait for others that have ended, or wait elsewhere", m.threads - done, m.threads);
        }
    }
}

}  // namespace play

extern "C" {

struct PlayBuffer {
    u8* bytes;
    size_t len;
};

// Runs a kernel. 0: done; 1: it did what it must not, and `message` says what.
int shardpack_play_launch(const char* name, const u32* grid, const u32* block, const void* params, size_t params_len,
                          const PlayBuffer* buffers, size_t count, u32 backward, u32 poison, char* message,
                          size_t message_len) {
    using namespace play;
    Machine& m = machine();
    auto refuse = [&](const char* why) {
        snprintf(message, message_len, "kernel `%s`: %s", name, why);
        return 1;
    };
    auto found = kernels().find(name);
    if (found == kernels().end()) return refuse("there is none such");
    if (found->second.params != params_len) return refuse("parameters of another size");
    u64 threads = (u64)block[0] * block[1] * block[2];
    if (threads == 0 || threads > found->second.threads || threads > MAX_THREADS)
        return refuse("more threads in a block than it is made for");
    m.name = found->first.c_str();
    m.body = found->second.body;
    m.params = params;
    m.threads = (u32)threads;
    m.buffers.clear();
    m.last = 0;
    for (size_t n = 0; n < count; n++) {
        uintptr_t start = (uintptr_t)buffers[n].bytes;
        m.buffers.push_back(Buffer{start, start + buffers[n].len});
    }
    blockDim = Dim{block[0], block[1], block[2]};
    gridDim = Dim{grid[0], grid[1], grid[2]};
    if (_setjmp(m.launch)) {
        snprintf(message, message_len, "%s", m.message);
        return 1;
    }
    u64 blocks = (u64)grid[0] * grid[1] * grid[2];
    for (u64 k = 0; k < blocks; k++) {
        u64 n = backward ? blocks - 1 - k : k;
        blockIdx = Dim{(u32)(n % grid[0]), (u32)(n / grid[0] % grid[1]), (u32)(n / grid[0] / grid[1])};
        run_block(m, backward != 0, (u8)poison);
    }
    return 0;
}
}
