/* A stand-in for libcuda.so.1 that the driver tests build and load: no GPU, but the rules of the driver that the
 * host code relies on. Handles are numbers. Each call is written to a log; calls that need a context fail without
 * one; any function can be told to fail. Functions that the tests must find missing are not defined here. */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef unsigned int Result;
typedef uint64_t Handle;

enum { SUCCESS = 0, INVALID_VALUE = 1, OUT_OF_MEMORY = 2, NOT_INITIALIZED = 3, INVALID_CONTEXT = 201,
       INVALID_PTX = 218, INVALID_HANDLE = 400, NOT_FOUND = 500, CAPTURE_UNSUPPORTED = 900 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char text[1 << 20];
static size_t length;
static int initialised;
static int retained;
static Handle next = 0x1000;
static Handle address = 0x700000000000;

static struct { const char *name; Result code; } failures[16];

static long setting(const char *name, long otherwise) {
    const char *value = getenv(name);
    return value ? atol(value) : otherwise;
}

/* For the tests. */
void fake_fail(const char *name, Result code) {
    for (int i = 0; i < 16; i++)
        if (!failures[i].name || !strcmp(failures[i].name, name)) {
            failures[i].name = strdup(name);
            failures[i].code = code;
            return;
        }
    abort();
}
const char *fake_log(void) { return text; }
void fake_clear(void) {
    pthread_mutex_lock(&lock);
    length = 0;
    text[0] = 0;
    pthread_mutex_unlock(&lock);
}
int fake_retained(void) { return retained; }

static Result enter(const char *name, const char *format, Handle a, Handle b) {
    pthread_mutex_lock(&lock);
    length += snprintf(text + length, sizeof text - length, "%s", name);
    length += snprintf(text + length, sizeof text - length, format, a, b);
    length += snprintf(text + length, sizeof text - length, "\n");
    pthread_mutex_unlock(&lock);
    for (int i = 0; i < 16 && failures[i].name; i++)
        if (!strcmp(failures[i].name, name) || !strcmp(failures[i].name, "*"))
            if (failures[i].code) return failures[i].code;
    return SUCCESS;
}

static __thread Handle contexts[16];
static __thread int depth;

/* Another library's recording, in CUDA's default mode: calls that are unsafe beside it spoil it, but for threads
 * that have declared otherwise. */
static Handle foreign;
static int spoiled;
static __thread unsigned capture_mode;
int fake_spoiled(void) { return spoiled; }
void fake_foreign_capture(Handle stream) { foreign = stream; }
#define UNSAFE_BESIDE_CAPTURES() do { if (foreign && capture_mode != 2) { spoiled = 1; return CAPTURE_UNSUPPORTED; } } while (0)

#define ENTER(a, b) do { Result r_ = enter(__func__, " %lx %lx", (Handle)(a), (Handle)(b)); if (r_) return r_; } while (0)
#define NEED_INIT() do { if (!initialised) return NOT_INITIALIZED; } while (0)
#define NEED_CONTEXT() do { NEED_INIT(); if (!depth || !contexts[depth - 1]) return INVALID_CONTEXT; } while (0)

Result cuInit(unsigned flags) { ENTER(flags, 0); initialised = 1; return SUCCESS; }
Result cuDriverGetVersion(int *version) {
    ENTER(0, 0);
    *version = (int)setting("FAKE_VERSION", 13000);
    return SUCCESS;
}
Result cuGetErrorString(Result code, const char **out) { *out = code == 2 ? "the fake's text" : 0; return code == 2 ? SUCCESS : INVALID_VALUE; }

/* Devices */
Result cuDeviceGetCount(int *count) { NEED_INIT(); ENTER(0, 0); *count = (int)setting("FAKE_DEVICES", 2); return SUCCESS; }
Result cuDeviceGet(int *device, int ordinal) { NEED_INIT(); ENTER(ordinal, 0); *device = ordinal; return SUCCESS; }
Result cuDeviceGetName(char *name, int bytes, int device) { ENTER(bytes, device); snprintf(name, bytes, "Fake GPU %d", device); return SUCCESS; }
Result cuDeviceTotalMem_v2(size_t *bytes, int device) { ENTER(0, device); *bytes = 80ull << 30; return SUCCESS; }
Result cuDeviceGetUuid_v2(unsigned char *uuid, int device) { ENTER(0, device); memset(uuid, 0x80 + device, 16); return SUCCESS; }
Result cuDeviceGetAttribute(int *value, unsigned attribute, int device) {
    ENTER(attribute, device);
    long capability = setting("FAKE_CAPABILITY", 90);
    switch (attribute) {
    case 16: *value = 132; break;
    case 38: *value = 50 << 20; break;
    case 75: *value = (int)(capability / 10); break;
    case 76: *value = (int)(capability % 10); break;
    case 97: *value = 227 << 10; break;
    case 115: *value = (int)setting("FAKE_POOLS", 1); break;
    default: return INVALID_VALUE;
    }
    return SUCCESS;
}
Result cuDeviceGetDefaultMemPool(Handle *pool, int device) { ENTER(0, device); *pool = 0xb00 + device; return SUCCESS; }
Result cuMemPoolSetAttribute(Handle pool, unsigned attribute, uint64_t *value) { ENTER(pool, *value); return attribute == 4 ? SUCCESS : INVALID_VALUE; }
Result cuMemPoolTrimTo(Handle pool, size_t bytes) { ENTER(pool, bytes); return SUCCESS; }

/* Contexts: that of device n is 0xc00 + n. */
Result cuDevicePrimaryCtxRetain(Handle *context, int device) {
    NEED_INIT();
    ENTER(0, device);
    __atomic_add_fetch(&retained, 1, __ATOMIC_SEQ_CST);
    *context = 0xc00 + device;
    return SUCCESS;
}
Result cuDevicePrimaryCtxRelease_v2(int device) { ENTER(0, device); __atomic_sub_fetch(&retained, 1, __ATOMIC_SEQ_CST); return SUCCESS; }
Result cuCtxGetCurrent(Handle *context) { NEED_INIT(); ENTER(0, 0); *context = depth ? contexts[depth - 1] : 0; return SUCCESS; }
Result cuCtxSetCurrent(Handle context) {
    NEED_INIT();
    ENTER(context, 0);
    if (!context) { if (depth) depth--; return SUCCESS; }
    if (!depth) depth = 1;
    contexts[depth - 1] = context;
    return SUCCESS;
}
Result cuCtxPushCurrent_v2(Handle context) { NEED_INIT(); ENTER(context, 0); contexts[depth++] = context; return SUCCESS; }
Result cuCtxPopCurrent_v2(Handle *context) { NEED_INIT(); ENTER(0, 0); if (!depth) return INVALID_CONTEXT; *context = contexts[--depth]; return SUCCESS; }
Result cuCtxSynchronize(void) { UNSAFE_BESIDE_CAPTURES(); NEED_CONTEXT(); ENTER(contexts[depth - 1], 0); return SUCCESS; }

/* Modules. A text with "refuse" in it does not compile; compiling takes FAKE_JIT_MS. */
Result cuModuleLoadDataEx(Handle *module, const char *image, unsigned count, unsigned *names, void **values) {
    UNSAFE_BESIDE_CAPTURES(); NEED_CONTEXT();
    ENTER(strlen(image), count);
    usleep(1000 * setting("FAKE_JIT_MS", 0));
    if (strstr(image, "refuse")) {
        for (unsigned i = 0; i + 1 < count; i++)
            if (names[i] == 5)
                snprintf(values[i], (size_t)values[i + 1], "ptxas error   : line 4; unknown symbol 'refuse'");
        return INVALID_PTX;
    }
    *module = __atomic_add_fetch(&next, 1, __ATOMIC_SEQ_CST);
    return SUCCESS;
}
Result cuModuleUnload(Handle module) { UNSAFE_BESIDE_CAPTURES(); NEED_CONTEXT(); ENTER(module, 0); return SUCCESS; }
Result cuModuleGetFunction(Handle *function, Handle module, const char *name) {
    NEED_CONTEXT();
    ENTER(module, strlen(name));
    *function = __atomic_add_fetch(&next, 1, __ATOMIC_SEQ_CST);
    return SUCCESS;
}
Result cuFuncGetAttribute(int *value, unsigned attribute, Handle function) {
    NEED_CONTEXT();
    ENTER(attribute, function);
    static const int values[] = { 1024, 1024, 0, 16, 40 };
    if (attribute > 4) return INVALID_VALUE;
    *value = values[attribute];
    return SUCCESS;
}
Result cuFuncSetAttribute(Handle function, unsigned attribute, int value) { NEED_CONTEXT(); ENTER(attribute, value); return function ? SUCCESS : INVALID_HANDLE; }

/* Launches: the eleven arguments, and the packed parameters' bytes or the first parameter's. */
uint64_t fake_launch[11];
unsigned char fake_parameters[4096];
size_t fake_parameter_bytes;
Result cuLaunchKernel(Handle function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                      unsigned shared, Handle stream, void **each, void **extra) {
    uint64_t all[] = { function, gx, gy, gz, bx, by, bz, shared, stream, (uint64_t)each, (uint64_t)extra };
    memcpy(fake_launch, all, sizeof all);
    if (!initialised) return NOT_INITIALIZED;
    NEED_CONTEXT();
    ENTER(function, stream);
    if (extra && extra[0] == (void *)1 && extra[2] == (void *)2 && !extra[4]) {
        fake_parameter_bytes = *(size_t *)extra[3];
        memcpy(fake_parameters, extra[1], fake_parameter_bytes);
    } else if (each) {
        fake_parameter_bytes = 8;
        memcpy(fake_parameters, each[0], 8);
    }
    return gx ? SUCCESS : INVALID_VALUE;
}

/* Streams and events. Work is done at once, unless the device is told to be busy. */
static int busy;
static Handle capturing;
void fake_busy(int yes) { busy = yes; }
void fake_end_captures(void) { capturing = 0; }
Result cuStreamCreate(Handle *stream, unsigned flags) { NEED_CONTEXT(); ENTER(flags, 0); *stream = __atomic_add_fetch(&next, 1, __ATOMIC_SEQ_CST); return SUCCESS; }
Result cuStreamDestroy_v2(Handle stream) { NEED_CONTEXT(); ENTER(stream, 0); return SUCCESS; }
Result cuStreamQuery(Handle stream) { UNSAFE_BESIDE_CAPTURES(); NEED_CONTEXT(); ENTER(stream, 0); return busy ? 600 : SUCCESS; }
Result cuStreamSynchronize(Handle stream) { UNSAFE_BESIDE_CAPTURES(); NEED_CONTEXT(); ENTER(stream, 0); return stream == capturing ? CAPTURE_UNSUPPORTED : SUCCESS; }
Result cuStreamWaitEvent(Handle stream, Handle event, unsigned flags) { NEED_CONTEXT(); ENTER(stream, event); return flags ? INVALID_VALUE : SUCCESS; }
Result cuEventCreate(Handle *event, unsigned flags) { NEED_CONTEXT(); ENTER(flags, 0); *event = __atomic_add_fetch(&next, 1, __ATOMIC_SEQ_CST); return SUCCESS; }
Result cuEventDestroy_v2(Handle event) { NEED_CONTEXT(); ENTER(event, 0); return SUCCESS; }
Result cuEventRecord(Handle event, Handle stream) { NEED_CONTEXT(); ENTER(event, stream); return SUCCESS; }
Result cuEventQuery(Handle event) { UNSAFE_BESIDE_CAPTURES(); NEED_CONTEXT(); ENTER(event, 0); return busy ? 600 : SUCCESS; }
Result cuEventSynchronize(Handle event) { UNSAFE_BESIDE_CAPTURES(); NEED_CONTEXT(); ENTER(event, 0); return SUCCESS; }
Result cuEventElapsedTime(float *ms, Handle start, Handle end) { NEED_CONTEXT(); ENTER(start, end); *ms = 1.5f; return SUCCESS; }

Result cuStreamBeginCapture_v2(Handle stream, unsigned mode) { NEED_CONTEXT(); ENTER(stream, mode); if (capturing) return 401; capturing = stream; return SUCCESS; }
Result cuStreamEndCapture(Handle stream, Handle *graph) {
    NEED_CONTEXT();
    ENTER(stream, 0);
    if (capturing != stream) return 401;
    capturing = 0;
    *graph = __atomic_add_fetch(&next, 1, __ATOMIC_SEQ_CST);
    return SUCCESS;
}
Result cuStreamIsCapturing(Handle stream, unsigned *status) {
    NEED_CONTEXT();
    ENTER(stream, 0);
    *status = stream && (stream == capturing || stream == foreign);
    return SUCCESS;
}
Result cuThreadExchangeStreamCaptureMode(unsigned *mode) { ENTER(*mode, 0); unsigned old = capture_mode; capture_mode = *mode; *mode = old; return SUCCESS; }
Result cuGraphGetNodes(Handle graph, void *nodes, size_t *count) { NEED_CONTEXT(); ENTER(graph, 0); *count = 3; return nodes ? INVALID_VALUE : SUCCESS; }
Result cuGraphInstantiateWithFlags(Handle *exec, Handle graph, uint64_t flags) { NEED_CONTEXT(); ENTER(graph, flags); *exec = __atomic_add_fetch(&next, 1, __ATOMIC_SEQ_CST); return SUCCESS; }
Result cuGraphLaunch(Handle exec, Handle stream) { NEED_CONTEXT(); ENTER(exec, stream); return SUCCESS; }
Result cuGraphDestroy(Handle graph) { NEED_CONTEXT(); ENTER(graph, 0); return SUCCESS; }
Result cuGraphExecDestroy(Handle exec) { NEED_CONTEXT(); ENTER(exec, 0); return SUCCESS; }

/* Memory: addresses only, but for copies, which go through one small array. */
static unsigned char bytes_of_device[4096];
/* What of a fill or a copy lies in the array. */
static size_t within(Handle at, size_t bytes) {
    size_t room = sizeof bytes_of_device - (at & 511);
    return bytes < room ? bytes : room;
}
static Result allocate(Handle *out, size_t bytes) {
    if (bytes > 80ull << 30) return OUT_OF_MEMORY;
    *out = __atomic_fetch_add(&address, (bytes + 511) & ~511ull, __ATOMIC_SEQ_CST);
    return SUCCESS;
}
Result cuMemAlloc_v2(Handle *out, size_t bytes) { UNSAFE_BESIDE_CAPTURES(); NEED_CONTEXT(); ENTER(bytes, 0); return allocate(out, bytes); }
Result cuMemFree_v2(Handle memory) { UNSAFE_BESIDE_CAPTURES(); NEED_CONTEXT(); ENTER(memory, 0); return SUCCESS; }
Result cuMemAllocAsync(Handle *out, size_t bytes, Handle stream) { NEED_CONTEXT(); ENTER(bytes, stream); return stream == capturing && capturing ? CAPTURE_UNSUPPORTED : allocate(out, bytes); }
Result cuMemFreeAsync(Handle memory, Handle stream) { NEED_CONTEXT(); ENTER(memory, stream); return stream == capturing && capturing ? CAPTURE_UNSUPPORTED : SUCCESS; }
Result cuMemGetInfo_v2(size_t *free_, size_t *total) { UNSAFE_BESIDE_CAPTURES(); NEED_CONTEXT(); ENTER(0, 0); *free_ = 7ull << 30; *total = 80ull << 30; return SUCCESS; }
Result cuMemGetAddressRange_v2(Handle *base, size_t *bytes, Handle memory) {
    NEED_CONTEXT();
    ENTER(memory, 0);
    if (memory < 0x700000000000) return NOT_FOUND;
    *base = memory & ~511ull;
    *bytes = 512;
    return SUCCESS;
}
Result cuPointerGetAttribute(int *value, unsigned attribute, Handle memory) {
    NEED_CONTEXT();
    ENTER(attribute, memory);
    if (attribute != 9 || memory < 0x700000000000) return INVALID_VALUE;
    *value = 1;
    return SUCCESS;
}
Result cuMemcpyHtoDAsync_v2(Handle to, const void *from, size_t bytes, Handle stream) { NEED_CONTEXT(); ENTER(to, stream); memcpy(bytes_of_device + (to & 511), from, within(to, bytes)); return SUCCESS; }
Result cuMemcpyDtoHAsync_v2(void *to, Handle from, size_t bytes, Handle stream) { NEED_CONTEXT(); ENTER(from, stream); memset(to, 0, bytes); memcpy(to, bytes_of_device + (from & 511), within(from, bytes)); return SUCCESS; }
Result cuMemcpyDtoDAsync_v2(Handle to, Handle from, size_t bytes, Handle stream) { NEED_CONTEXT(); ENTER(to, from); (void)bytes; (void)stream; return SUCCESS; }
Result cuMemsetD8Async(Handle to, unsigned char value, size_t bytes, Handle stream) { NEED_CONTEXT(); ENTER(to, stream); memset(bytes_of_device + (to & 511), value, within(to, bytes)); return SUCCESS; }

/* Not the driver's signature: a function of this name takes arguments in every register class and on the stack,
 * for the test of what the trampolines keep. */
uint64_t fake_integers[8];
double fake_floats[9];
Result cuMemAdvise(uint64_t a, double p, uint64_t b, double q, uint64_t c, double r, uint64_t d, double s, uint64_t e,
                   double t, uint64_t f, double u, uint64_t g, double v, uint64_t h, double w, double x) {
    uint64_t integers[] = { a, b, c, d, e, f, g, h };
    double floats[] = { p, q, r, s, t, u, v, w, x };
    memcpy(fake_integers, integers, sizeof integers);
    memcpy(fake_floats, floats, sizeof floats);
    return 77;
}
