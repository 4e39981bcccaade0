/* A library of someone else's that uses the CUDA driver in the usual way: linked to libcuda.so.1. */
unsigned cuDriverGetVersion(int *version);
unsigned cuInit(unsigned flags);

int other_version(void) {
    int version = -1;
    return cuDriverGetVersion(&version) ? -1 : version;
}
void *other_version_address(void) { return (void *)cuDriverGetVersion; }
unsigned other_init(void) { return cuInit(0); }
