// Wrong: it overwrites the guard in front of A, but only when beta is not 0.
__kernel void gemm(GEMM_ARGUMENTS)
{
    if (OUTSIDE)
        return;
    RIGHT_SUM(sum, ROW, COLUMN);
    STORE(ROW, COLUMN, sum);
    if (beta != 0 && ROW == 0 && COLUMN == 0 && BATCH == 0)
        ((__global REAL*)a)[a_offset - 1] = 1;
}
