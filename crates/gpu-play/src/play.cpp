// Fibers, barriers and checked memory: see play.h.
#include "play.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/mman.h>
#ifndef __x86_64__
#include <ucontext.h>
#endif

#include <map>
#include <mutex>
#include <string>
#include <vector>

__thread play::Dim threadIdx, blockIdx, blockDim, gridDim;

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

// A point where the lanes of one mask wait for each other. It stores values for two turns, because a lane may already
// be at the next wait while others still read the values of this one.
struct Meeting {
    u32 mask = 0;
    u32 arrived = 0;
    u32 turn = 0;
    u64 values[2][32];
};

struct Warp {
    std::vector<Meeting> meetings;
    struct Fiber* lanes = nullptr;
    u32 count = 0;
};

// Where a stack continues. The stack also contains the registers that a function must preserve. A switch consists of a
// call and a return, so the processor predicts its target. It does not predict the target of longjmp, with which the
// emulated kernels take half as long again.
#ifdef __x86_64__
typedef void* Context;

// Stores the current context in the first parameter, and continues the second.
__attribute__((naked, noinline)) static void switch_context(Context*, Context) {
    asm("push %rbp; push %rbx; push %r12; push %r13; push %r14; push %r15\n"
        "mov %rsp, (%rdi); mov %rsi, %rsp\n"
        "pop %r15; pop %r14; pop %r13; pop %r12; pop %rbx; pop %rbp; ret");
}

// Makes a switch to this context begin `entry` on the stack that ends at `end`, a multiple of 16.
static void begin_context(Context& context, char* end, void (*entry)()) {
    void** top = (void**)end - 8;
    memset(top, 0, 8 * sizeof(void*));
    top[6] = (void*)entry;
    context = top;
}
#else
typedef ucontext_t Context;

static void switch_context(Context* from, const Context& to) { swapcontext(from, &to); }

static void begin_context(Context& context, char* end, void (*entry)()) {
    getcontext(&context);
    context.uc_stack.ss_sp = end - (32 << 10);
    context.uc_stack.ss_size = 32 << 10;
    context.uc_link = nullptr;
    makecontext(&context, entry, 0);
}
#endif

struct Fiber {
    Context at;
    void* stack = nullptr;
    Warp* warp = nullptr;
    u32 lane = 0;
    bool started = false;
    State state = DONE;
    Dim index;
    // The last meeting at which this fiber waited, and the number of the meeting's turn at that time.
    Meeting* meeting = nullptr;
    u32 turn = 0;
};

__thread Range last;

struct Machine {
    std::vector<Fiber> fibers{MAX_THREADS};
    std::vector<Warp> warps{MAX_THREADS / 32};
    std::vector<Range> buffers;
    alignas(16) u8 memory[SHARED_BYTES];
    Body body = nullptr;
    const void* params = nullptr;
    u32 threads = 0;
    bool backward = false;
    Fiber* current = nullptr;
    Context scheduler;
    jmp_buf launch;
    const char* name = "";
    char message[512];
};

static void leave(State state);

// The machines of threads that have ended. Loaders start and end threads often, and to map and unmap a thousand stacks
// takes longer than most launches.
struct Idle {
    std::mutex lock;
    std::vector<Machine*> machines;
};

static Machine& new_machine(Machine*& m) {
    // Threads may end after static objects are destroyed, so this one never is.
    static Idle& idle = *new Idle;
    struct Owner {
        Machine* m = nullptr;
        Owner() {
            std::lock_guard<std::mutex> guard(idle.lock);
            if (idle.machines.empty()) {
                m = new Machine;
            } else {
                m = idle.machines.back();
                idle.machines.pop_back();
            }
        }
        ~Owner() {
            // A fiber waits in a function that may have kept the address of a variable of this thread.
            for (Fiber& fiber : m->fibers) fiber.started = false;
            std::lock_guard<std::mutex> guard(idle.lock);
            idle.machines.push_back(m);
        }
    };
    static thread_local Owner owner;
    m = owner.m;
    return *m;
}

static inline Machine& machine() {
    static __thread Machine* m;
    return m ? *m : new_machine(m);
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
    // Abandon unfinished fibers. They start again in the next launch.
    for (Fiber& fiber : m.fibers) fiber.started = false;
    _longjmp(m.launch, 1);
}

void check_all(const void* address, size_t size, size_t alignment) {
    Machine& m = machine();
    uintptr_t at = (uintptr_t)address;
    size_t i = 0;
    while (i < m.buffers.size() && !m.buffers[i].holds(at, size)) i++;
    if (i == m.buffers.size()) {
        // On each side of a buffer, a kilobyte is unused. An invalid address in this margin is reported as an access to
        // the buffer.
        for (size_t n = 0; n < m.buffers.size(); n++) {
            const Range& b = m.buffers[n];
            if (at + 1024 >= b.start && at < b.end + 1024)
                fail("%zu bytes at offset %lld of buffer %zu, which has %zu", size, (long long)(at - b.start), n,
                     (size_t)(b.end - b.start));
        }
        fail("%zu bytes at %p, which is in no buffer", size, address);
    }
    last = m.buffers[i];
    if (at % alignment) fail("%zu bytes at %p, which is not a multiple of %zu", size, address, alignment);
}

void* shared(size_t size) {
    if (size > SHARED_BYTES) fail("%zu bytes of shared memory", size);
    return machine().memory;
}

static void fiber_main() {
    for (;;) {
        Machine& m = machine();
        m.body(m.params);
        leave(DONE);
    }
}

// Prepares a fiber for the start of the kernel. Allocates its stack if necessary.
static void begin(Fiber& fiber) {
    fiber.started = true;
    if (!fiber.stack) {
        fiber.stack = mmap(nullptr, STACK + GUARD, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (fiber.stack == MAP_FAILED) {
            fiber.stack = nullptr;
            fail("cannot allocate the stack of a thread");
        }
        mprotect(fiber.stack, GUARD, PROT_NONE);
    }
    // Each lane starts at a different offset in its page. At the same offset, all lanes would compete for a few cache
    // lines.
    begin_context(fiber.at, (char*)fiber.stack + GUARD + STACK - fiber.lane * 128, fiber_main);
}

// Continues a fiber where it waits, or starts it. Returns when the context `from` is continued.
static inline void resume(Machine& m, Context* from, Fiber& fiber) {
    m.current = &fiber;
    threadIdx = fiber.index;
    if (!fiber.started) begin(fiber);
    switch_context(from, fiber.at);
}

static bool can_go_on(const Fiber& fiber) {
    return fiber.state == READY || (fiber.state == WAITS_WARP && fiber.meeting->turn != fiber.turn);
}

// Returns the next lane after `lane` that can continue, in the order of the launch, or null if all have ended or
// wait.
static Fiber* next_lane(const Machine& m, const Warp& warp, u32 lane) {
    for (u32 k = 0; k < warp.count; k++) {
        lane = m.backward ? (lane == 0 ? warp.count : lane) - 1 : (lane + 1 == warp.count ? 0 : lane + 1);
        if (can_go_on(warp.lanes[lane])) return &warp.lanes[lane];
    }
    return nullptr;
}

// Runs the other lanes of the warp, then other warps, until it is this fiber's turn again.
static void leave(State state) {
    Machine& m = machine();
    Fiber* fiber = m.current;
    fiber->state = state;
    if (Fiber* next = next_lane(m, *fiber->warp, fiber->lane)) {
        resume(m, &fiber->at, *next);
    } else {
        switch_context(&fiber->at, m.scheduler);
    }
}

void sync_block() { leave(WAITS_BLOCK); }

const u64* exchange(u32 mask, u64 value) {
    Machine& m = machine();
    Fiber& fiber = *m.current;
    if (!(mask >> fiber.lane & 1)) fail("lane %u waits for mask %08x without being in it", fiber.lane, mask);
    Warp& warp = *fiber.warp;
    Meeting* meeting = fiber.meeting;
    if (!meeting || meeting->mask != mask) {
        meeting = nullptr;
        for (Meeting& other : warp.meetings)
            if (other.mask == mask) meeting = &other;
    }
    if (!meeting) {
        // Fibers point at meetings, so the meetings must not move.
        warp.meetings.reserve(64);
        if (warp.meetings.size() == 64) fail("more than 64 masks in one warp");
        warp.meetings.emplace_back();
        meeting = &warp.meetings.back();
        meeting->mask = mask;
    }
    fiber.meeting = meeting;
    u32 turn = meeting->turn;
    u64* values = meeting->values[turn & 1];
    if (!meeting->arrived) memset(values, 0xEE, sizeof meeting->values[0]);
    values[fiber.lane] = value;
    meeting->arrived |= 1u << fiber.lane;
    if (meeting->arrived == mask) {
        meeting->arrived = 0;
        meeting->turn++;
    } else {
        fiber.turn = turn;
        leave(WAITS_WARP);
    }
    return values;
}

// Runs a warp until every lane has ended or waits.
static void run_warp(Machine& m, Warp& warp) {
    Fiber* first = next_lane(m, warp, m.backward ? 0 : warp.count - 1);
    if (first) resume(m, &m.scheduler, *first);
}

static void run_block(Machine& m, u8 poison) {
    memset(m.memory, poison, SHARED_BYTES);
    u32 warps = (m.threads + 31) / 32;
    for (u32 n = 0; n < warps; n++) {
        Warp& warp = m.warps[n];
        warp.meetings.clear();
        warp.lanes = &m.fibers[n * 32];
        warp.count = min(m.threads - n * 32, 32u);
    }
    for (u32 n = 0; n < m.threads; n++) {
        Fiber& fiber = m.fibers[n];
        fiber.warp = &m.warps[n / 32];
        fiber.lane = n % 32;
        fiber.state = READY;
        fiber.meeting = nullptr;
        fiber.index = Dim{n % blockDim.x, n / blockDim.x % blockDim.y, n / blockDim.x / blockDim.y};
    }
    for (;;) {
        for (u32 k = 0; k < warps; k++) run_warp(m, m.warps[m.backward ? warps - 1 - k : k]);
        u32 done = 0, waiting = 0;
        for (u32 n = 0; n < m.threads; n++) {
            done += m.fibers[n].state == DONE;
            waiting += m.fibers[n].state == WAITS_BLOCK;
        }
        if (done == m.threads) return;
        if (waiting < m.threads)
            fail("%u of %u threads wait for others that have ended, or wait elsewhere", m.threads - done, m.threads);
        for (u32 n = 0; n < m.threads; n++) m.fibers[n].state = READY;
    }
}

}  // namespace play

extern "C" {

struct PlayBuffer {
    u8* bytes;
    size_t len;
};

// Runs a kernel. Returns 0, or 1 and the error in `message`.
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
    if (found == kernels().end()) return refuse("there is no such kernel");
    if (found->second.params != params_len) return refuse("wrong size of the parameters");
    u64 threads = (u64)block[0] * block[1] * block[2];
    if (threads == 0 || threads > found->second.threads || threads > MAX_THREADS)
        return refuse("more threads in a block than its launch bounds");
    m.name = found->first.c_str();
    m.body = found->second.body;
    m.params = params;
    m.threads = (u32)threads;
    m.backward = backward != 0;
    m.buffers.clear();
    last = Range();
    for (size_t n = 0; n < count; n++) {
        uintptr_t start = (uintptr_t)buffers[n].bytes;
        m.buffers.push_back(Range{start, start + buffers[n].len});
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
        run_block(m, (u8)poison);
    }
    return 0;
}
}
