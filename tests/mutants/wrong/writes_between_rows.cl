// Wrong: where there is room between rows of C it writes there.
__kernel void gemm(GEMM_ARGUMENTS)
{
    if (OUTSIDE)
        return;
    RIGHT_SUM(sum, ROW, COLUMN);
    STORE(ROW, COLUMN, sum);
    if (COLUMN == n - 1 && ldc > n)
        C(ROW, n) = 0;
}
