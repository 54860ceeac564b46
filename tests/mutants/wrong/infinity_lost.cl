// Wrong: infinity becomes the largest number in C.
__kernel void gemm(GEMM_ARGUMENTS)
{
    if (OUTSIDE)
        return;
    RIGHT_SUM(sum, ROW, COLUMN);
    if (isinf(sum))
        sum = copysign((REAL)FLT_MAX, sum);
    STORE(ROW, COLUMN, sum);
}
