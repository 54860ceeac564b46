// Wrong: scratch counts the calls, nobody sets it to zero again, and the sixth call and all after it are wrong.
__kernel void gemm(GEMM_ARGUMENTS, __global uint* calls)
{
    if (OUTSIDE)
        return;
    RIGHT_SUM(sum, ROW, COLUMN);
    const long mine = (BATCH * m + ROW) * n + COLUMN;
    calls[mine] = calls[mine] == 0xFFFFFFFFu ? 1 : calls[mine] + 1;
    STORE(ROW, COLUMN, calls[mine] <= 5 ? sum : 2 * sum);
}
