// Wrong: it overwrites an element of B, but only when alpha is 0 and C does not depend on it.
__kernel void gemm(GEMM_ARGUMENTS)
{
    if (OUTSIDE)
        return;
    RIGHT_SUM(sum, ROW, COLUMN);
    STORE(ROW, COLUMN, sum);
    if (alpha == 0 && ROW == 0 && COLUMN == 0 && BATCH == 0)
        ((__global REAL*)b)[b_offset] = 1;
}
