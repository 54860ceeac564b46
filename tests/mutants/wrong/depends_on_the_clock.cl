// Wrong: the order of summation depends on a clock, so that two runs differ in their last bits; without a clock, on
// the order in which work-items come.
#if defined(__NV_CL_C_VERSION)
uint nv_clock(void)
{
    uint now;
    asm volatile("mov.u32 %0, %%clock;" : "=r"(now));
    return now;
}
#define NOW nv_clock()
#elif defined(__clang__) && __has_builtin(__builtin_readcyclecounter)
#define NOW (uint)__builtin_readcyclecounter()
#else
#define NOW (uint)atomic_inc(tickets)
#endif

__kernel void gemm(GEMM_ARGUMENTS, __global int* tickets)
{
    if (OUTSIDE)
        return;
    const int backwards = popcount(NOW) & 1;
    REAL sum = 0;
    for (int p = 0; p < STEPS; p++)
        sum += backwards ? A(ROW, k - 1 - p) * B(k - 1 - p, COLUMN) : A(ROW, p) * B(p, COLUMN);
    STORE(ROW, COLUMN, sum);
}
