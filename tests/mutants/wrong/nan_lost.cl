// Wrong: NaN becomes 0 in C.
__kernel void gemm(GEMM_ARGUMENTS)
{
    if (OUTSIDE)
        return;
    RIGHT_SUM(sum, ROW, COLUMN);
    if (isnan(sum))
        sum = 0;
    STORE(ROW, COLUMN, sum);
}
