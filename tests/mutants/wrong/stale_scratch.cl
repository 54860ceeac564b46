// Wrong: it adds to scratch that nobody has set to zero.
__kernel void gemm(GEMM_ARGUMENTS, __global REAL* partial)
{
    if (OUTSIDE)
        return;
    RIGHT_SUM(sum, ROW, COLUMN);
    const long mine = (BATCH * m + ROW) * n + COLUMN;
    partial[mine] += sum;
    STORE(ROW, COLUMN, partial[mine]);
}
