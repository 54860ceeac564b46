// Wrong: right only while scratch is as the bench fills it; a second call finds what the first one left there.
__kernel void gemm(GEMM_ARGUMENTS, __global uint* calls)
{
    if (OUTSIDE)
        return;
    RIGHT_SUM(sum, ROW, COLUMN);
    const long mine = (BATCH * m + ROW) * n + COLUMN;
    STORE(ROW, COLUMN, calls[mine] == 0xFFFFFFFFu ? sum : 2 * sum);
    calls[mine] = 0;
}
