// Wrong: one row is never written, and keeps what the kernel before left there.
__kernel void gemm(GEMM_ARGUMENTS)
{
    if (OUTSIDE || ROW == 0)
        return;
    RIGHT_SUM(sum, ROW, COLUMN);
    STORE(ROW, COLUMN, sum);
}
