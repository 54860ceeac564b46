// Wrong: the sum is rounded to C's own 16 bits before alpha and beta are applied.
__kernel void gemm(GEMM_ARGUMENTS)
{
    if (OUTSIDE)
        return;
    RIGHT_SUM(sum, ROW, COLUMN);
    sum = AS_STORED(sum);
    STORE(ROW, COLUMN, sum);
}
