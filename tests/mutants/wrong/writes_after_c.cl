// Wrong: it also writes one element after C.
__kernel void gemm(GEMM_ARGUMENTS)
{
    if (OUTSIDE)
        return;
    RIGHT_SUM(sum, ROW, COLUMN);
    STORE(ROW, COLUMN, sum);
    if (ROW == m - 1 && COLUMN == n - 1 && BATCH == (long)get_global_size(2) - 1)
        C(m - 1, n) = sum;
}
